// The words of the components in other languages than English, for pages that import this file.
// The nearest `lang` says which.
import {words} from './countdown-stream.js'

Object.assign(words, {
  da: {
    waiting: '{label} om {time}', left: '{duration} tilbage', ready: '{label} er klar',
    paused: 'På pause, {duration} tilbage', loading: 'Indlæser', progress: 'Status', info: 'Besked',
    success: 'Udført', error: 'Fejl', lost: 'Forbindelsen er afbrudt',
  },
  de: {
    waiting: '{label} in {time}', left: 'Noch {duration}', ready: '{label} ist verfügbar',
    paused: 'Angehalten, noch {duration}', loading: 'Wird geladen', progress: 'Fortschritt',
    info: 'Hinweis', success: 'Erfolg', error: 'Fehler', lost: 'Die Verbindung ist unterbrochen',
  },
  es: {
    waiting: '{label} en {time}', left: 'Tiempo restante: {duration}', ready: '{label}: disponible',
    paused: 'En pausa, tiempo restante: {duration}', loading: 'Cargando', progress: 'Progreso',
    info: 'Información', success: 'Correcto', error: 'Error', lost: 'Se ha perdido la conexión',
  },
  fr: {
    waiting: '{label} dans {time}', left: 'Temps restant : {duration}', ready: '{label} : disponible',
    paused: 'En pause, temps restant : {duration}', loading: 'Chargement', progress: 'Progression',
    info: 'Information', success: 'Réussi', error: 'Erreur', lost: 'La connexion est perdue',
  },
  it: {
    waiting: '{label} tra {time}', left: 'Tempo rimanente: {duration}', ready: '{label}: disponibile',
    paused: 'In pausa, tempo rimanente: {duration}', loading: 'Caricamento', progress: 'Avanzamento',
    info: 'Informazione', success: 'Riuscito', error: 'Errore', lost: 'La connessione è persa',
  },
  nl: {
    waiting: '{label} over {time}', left: 'Nog {duration}', ready: '{label} is beschikbaar',
    paused: 'Gepauzeerd, nog {duration}', loading: 'Laden', progress: 'Voortgang', info: 'Informatie',
    success: 'Gelukt', error: 'Fout', lost: 'De verbinding is verbroken',
  },
  pl: {
    waiting: '{label} za {time}', left: 'Pozostało: {duration}', ready: '{label}: dostępne',
    paused: 'Wstrzymano, pozostało: {duration}', loading: 'Ładowanie', progress: 'Postęp',
    info: 'Informacja', success: 'Gotowe', error: 'Błąd', lost: 'Utracono połączenie',
  },
  pt: {
    waiting: '{label} em {time}', left: 'Tempo restante: {duration}', ready: '{label}: disponível',
    paused: 'Em pausa, tempo restante: {duration}', loading: 'A carregar', progress: 'Progresso',
    info: 'Informação', success: 'Concluído', error: 'Erro', lost: 'A ligação foi perdida',
  },
  sv: {
    waiting: '{label} om {time}', left: '{duration} kvar', ready: '{label} är tillgängligt',
    paused: 'Pausad, {duration} kvar', loading: 'Laddar', progress: 'Förlopp', info: 'Information',
    success: 'Klart', error: 'Fel', lost: 'Anslutningen är bruten',
  },
})
