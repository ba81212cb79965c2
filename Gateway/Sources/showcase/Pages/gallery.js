// Gives each component its first view again, and covers the page.
const $ = id => document.getElementById(id)

$('again').onclick = () => {
  for (const element of document.querySelectorAll('[view]')) {
    const {view} = element
    element.view = null
    element.view = view
  }
}
$('mask').onclick = () => {
  $('page').view = {state: 'visible', mask: 'black', kind: 'loading', status: 'Uploading'}
  setTimeout(() => $('page').view = {state: 'hidden'}, 3_000)
}
