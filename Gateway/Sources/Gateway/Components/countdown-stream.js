// The events of countdown-gateway. Elements with the same gateway and ticket address share a stream.
// Pages use <countdown-button> and <countdown-hud>, or `follow` for elements of their own.

// The gateway sends something every 15 seconds.
const SILENCE = 40_000
const LONGEST_PAUSE = 10_000
// How long a tab that nobody sees keeps its stream.
const HIDDEN = 60_000
// A session that is over stays over; a short failure is not one.
const MOST_REFUSALS = 5
const streams = new Set()
const warnings = new Set()
let timer, isWatching
// The address of the gateway that serves this file, which writes it here.
const home = import.meta.home

// Writes a warning to the console, once.
export function warn(text) {
  if (!warnings.has(text)) console.warn(`countdownd: ${text}`)
  warnings.add(text)
}

const each = body => { for (const stream of [...streams]) body(stream) }
const check = () => each(stream => stream.check())

// Notices that the page wakes up, was frozen, or is online again.
function watchPage() {
  timer ??= setInterval(check, 1_000)
  if (isWatching) return
  isWatching = true
  const again = () => each(stream => stream.again())
  addEventListener('online', again)
  addEventListener('pageshow', event => event.persisted && again())
  document.addEventListener('resume', again)
  document.addEventListener('visibilitychange', check)
}

// An answer that the same question would get again.
const refusal = (text, status, isRefusal = true) => Object.assign(new Error(text), {status, isRefusal})

// The claims of a ticket, which is a JSON Web Token.
const claims = ticket => JSON.parse(atob(ticket.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')))

class Stream {
  isOffline = false
  followers = new Set()
  views = new Map()
  // Which aliases have had a snapshot.
  current = new Set()
  // How far the gateway's clock is ahead of performance.now(), at least.
  clock = {offset: -Infinity}
  isHidden = false
  // When somebody saw the page.
  seen = performance.now()
  // The aliases of followers that no ticket has.
  missing = new Set()
  failures = 0
  // How far the page's clock is behind the wall clock. It changes during a sleep.
  drift = Date.now() - performance.now()

  constructor(source) {
    // gateway, ticket and credentials
    this.source = source
    this.run()
  }

  add(follower) {
    this.followers.add(follower)
    if (this.isOffline) this.give(follower, {event: 'offline'})
    for (const view of this.views.values()) if (view.alias === follower.alias) this.give(follower, view)
    if (!this.watch || follower.alias in this.watch || this.missing.has(follower.alias)) return
    // Another ticket may have it.
    this.missing.add(follower.alias)
    this.text = null
    this.again()
  }

  remove(follower) {
    this.followers.delete(follower)
    // Not at once: an element that moves leaves the page and comes back.
    setTimeout(() => this.followers.size || this.isOver || this.end())
  }

  end() {
    this.isOver = true
    this.again()
    streams.delete(this)
    if (!streams.size) timer = clearInterval(timer)
  }

  // Connects again, now.
  again() {
    this.isHurried = true
    this.controller?.abort()
    this.wake?.()
  }

  check() {
    const now = performance.now()
    const drift = Date.now() - now
    if (!document.hidden) this.seen = now
    const wasHidden = this.isHidden
    this.isHidden = now - this.seen > HIDDEN
    this.isSilent = !this.isHidden && !this.hasGivenUp && now - this.heard > SILENCE
    if (this.isSilent) this.tell({event: 'offline'})
    if (this.isSilent || wasHidden !== this.isHidden || Math.abs(drift - this.drift) > 2_000) this.again()
    this.drift = drift
  }

  async run() {
    // Elements that are added together give one stream all their aliases.
    await null
    while (!this.isOver) {
      if (this.isHidden) {
        this.resign()
        await new Promise(wake => { this.wake = wake })
        continue
      }
      this.controller = new AbortController()
      this.isHurried = this.hasGivenUp = false
      this.heard = performance.now()
      this.isGreeted = false
      try {
        await this.read(this.controller.signal)
      } catch (error) {
        // An answer that is no stream is not read to its end.
        this.controller.abort()
        if (this.isHurried) continue
        if (error.isRefusal) warn(error.message)
        this.failures++
        this.hasGivenUp = error.status === 401 && this.failures >= MOST_REFUSALS
        if (this.hasGivenUp) warn(`${error.message} again and again, so nobody asks until the page comes back`)
        this.share('data: {"event":"offline"}')
      }
      if (this.isHurried) continue
      const pause = Math.min(125 * 2 ** this.failures, LONGEST_PAUSE) * (.75 + Math.random() / 2)
      await new Promise(wake => {
        this.wake = wake
        if (!this.hasGivenUp) setTimeout(wake, pause)
      })
      this.wake = null
    }
    this.resign()
  }

  // Waits until this tab is the one that reads, of all tabs with such a ticket. It tells the others.
  lead(signal, {sub, watch}) {
    const name = JSON.stringify([this.source.gateway, sub, watch])
    if (this.leads === name) return
    this.resign()
    if (!navigator.locks) return
    const channel = this.channel = new BroadcastChannel(name)
    const id = Math.random()
    channel.onmessage = ({data: {from, to, block}}) => {
      if (from && this.leads) for (const block of this.state) channel.postMessage({to: from, block})
      if (from || to && to !== id) return
      this.heard = performance.now()
      this.take(block)
    }
    channel.postMessage({from: id})
    // One that says nothing is frozen, or gone.
    const options = this.isSilent ? {steal: true} : {signal}
    this.isSilent = false
    return new Promise((lead, refuse) => navigator.locks.request(name, options, () => {
      this.leads = name
      lead()
      return new Promise(resign => { this.release = resign })
    }).catch(error => {
      refuse(error)
      if (this.channel !== channel || !this.leads) return
      this.resign()
      this.again()
    }))
  }

  resign() {
    this.release?.()
    this.channel?.close()
    this.channel = this.leads = null
  }

  // What another tab must know.
  get state() {
    const state = this.isGreeted ? [
      {event: this.isOffline ? 'outage' : 'hello', now_ms: this.clock.offset + performance.now()},
      ...[...this.views.values()].map(view => ({...view, event: 'snapshot', now_ms: -1})),
    ] : this.isOffline ? [{event: 'offline'}] : []
    return state.map(message => `id: ${this.last ?? ''}\ndata: ${JSON.stringify(message)}`)
  }

  share(block) {
    if (this.leads) this.channel.postMessage({block})
    this.take(block)
  }

  async ask(address, options) {
    const answer = await fetch(address, {cache: 'no-store', signal: this.controller.signal, ...options})
    if (answer.ok) return answer
    throw refusal(`${address} answers ${answer.status}`, answer.status, answer.status < 500)
  }

  async read(signal) {
    const {gateway, ticket, credentials} = this.source
    // Without an address, the ticket is in a cookie, which pages may not be able to read.
    const isFresh = ticket && !this.text
    if (isFresh) {
      const place = ticket.call ? 'the function' : ticket
      let text
      try {
        text = `${await (ticket.call ? ticket() : (await this.ask(ticket, {credentials})).text())}`.trim()
      } catch (error) {
        throw ticket.call ? refusal(`the function answers: ${error.message}`, error.status) : error
      }
      try {
        this.claims = claims(text)
        this.watch = {...this.claims.watch}
      } catch {
        throw refusal(`${place} answers no ticket`)
      }
      this.text = text
      for (const {alias} of this.followers) {
        if (alias in this.watch) continue
        this.missing.add(alias)
        warn(`the ticket of ${place} has no alias "${alias}"`)
      }
    }
    if (ticket) await this.lead(signal, this.claims)
    const headers = ticket && {Authorization: `Bearer ${this.text}`} || {}
    if (this.last) headers['Last-Event-ID'] = this.last
    const address = `${gateway}v1/events`
    const answer = await this.ask(address, {headers, credentials: ticket ? 'same-origin' : 'include'}).catch(error => {
      if (error.status === 401 || error.status === 403) {
        this.text = null
        // Another ticket may be good.
        this.isHurried = ticket && !isFresh
      }
      throw error
    })
    // A site may answer each address with a page of its own.
    if (!answer.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      throw refusal(`${address} answers no stream`)
    }
    this.clock = {offset: -Infinity}
    this.current = new Set()
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let text = ''; ;) {
      const {value, done} = await reader.read()
      if (signal.aborted) return
      if (done && !this.isGreeted) throw refusal(`${address} ends before it says hello`)
      if (done) return
      this.heard = performance.now()
      const blocks = (text + value).split('\n\n')
      text = blocks.pop()
      for (const block of blocks) this.share(block)
    }
  }

  take(block) {
    const now = performance.now()
    let data = '', time
    for (const line of block.split('\n')) {
      if (line.startsWith('id: ')) this.last = line.slice(4)
      else if (line.startsWith('data: ')) data += line.slice(6)
      else if (line.startsWith(': ')) time = +line.slice(2)
    }
    const message = data ? JSON.parse(data) : {now_ms: time}
    const {clock, current} = this
    // The fastest message is the best one. A slow one makes an end later, never earlier.
    if (message.now_ms >= 0) clock.offset = Math.max(clock.offset, message.now_ms - now)
    if (!data) return
    const {alias, event, level, deadline_ms, remaining_ms} = message
    if (deadline_ms != null) {
      Object.defineProperty(message, 'ends', {get: () => deadline_ms - clock.offset, enumerable: true})
    } else if (remaining_ms != null) message.ends = now + remaining_ms
    // Events that were missed come before the snapshot that includes them.
    if (event === 'hello') {
      this.isGreeted = true
      this.failures = 0
    }
    if (event === 'outage' || event === 'gap') current.clear()
    if (event === 'snapshot') current.add(alias)
    if (alias !== undefined) {
      message.missed = !current.has(alias)
      if (!message.missed) this.views.set(`${alias} ${level ?? ''}`, message)
    }
    // The gateway asks for another ticket.
    if (event === 'end') this.text = null
    this.tell(message)
  }

  tell(message) {
    const {alias, event} = message
    if (event === 'offline' || event === 'outage') this.isOffline = true
    if (event === 'hello' || event === 'recovered') this.isOffline = false
    for (const follower of this.followers) {
      if (alias === undefined || alias === follower.alias) this.give(follower, message)
    }
  }

  // One follower's error is reported, and does not stop the others.
  give(follower, message) {
    try {
      follower.body(message, this)
    } catch (error) {
      reportError(error)
    }
  }
}

// Calls `body(message)` with each message for the alias, and with those of the stream itself (hello,
// offline, outage, recovered, gap, end). Returns a function that stops this.
//   message.ends    when the remaining time is over, by performance.now()
//   message.missed  whether it is an old event, which a snapshot follows
export function follow({gateway, ticket, credentials = 'same-origin'}, alias, body) {
  if (gateway == null) {
    warn('say where the gateway is: gateway="https://…"')
    return () => {}
  }
  // A gateway is a folder, with or without a slash at its end.
  const folder = new URL(gateway, document.baseURI)
  if (!folder.pathname.endsWith('/')) folder.pathname += '/'
  gateway = new URL('.', folder).href
  if (ticket && !ticket.call) ticket = new URL(ticket, document.baseURI).href
  const source = {gateway, ticket, credentials}
  let stream = [...streams].find(one => Object.keys(source).every(name => one.source[name] === source[name]))
  if (!stream) {
    stream = new Stream(source)
    streams.add(stream)
    watchPage()
  }
  const follower = {alias, body}
  stream.add(follower)
  return () => stream.remove(follower)
}

// Returns the addresses in an element's attributes.
export const source = element => ({
  gateway: element.getAttribute('gateway') ?? home,
  ticket: element.ticket ?? element.getAttribute('ticket') ?? '/ticket',
  credentials: element.getAttribute('credentials') ?? undefined,
})

// An element that follows an alias. Subclasses define `take(message)`, `takeView(view)`, `forget()` and
// `draw()`.
export class Follower extends (globalThis.HTMLElement ?? Object) {
  // The attributes that say what it follows.
  static sources = ['alias', 'ticket', 'gateway', 'credentials']

  #leave
  #isAsked = false
  #ticket = null

  // An address, or a function that returns a ticket or a promise of one.
  get ticket() {
    return this.#ticket ?? this.getAttribute('ticket')
  }

  set ticket(value) {
    const isFunction = typeof value === 'function'
    const isNew = this.#ticket !== (this.#ticket = isFunction ? value : null)
    if (!isFunction) write(this, 'ticket', value)
    if (isNew && this.isConnected) this.#change()
  }

  connectedCallback() {
    // Frameworks may set properties before the element is defined.
    for (const name of this.constructor.observedAttributes) {
      if (!Object.hasOwn(this, name)) continue
      const value = this[name]
      delete this[name]
      this[name] = value
    }
    // A copy of a page that was offline has it.
    this.removeAttribute('data-offline')
    this.draw()
    this.#follow()
  }

  disconnectedCallback() {
    this.#leave?.()
    this.#leave = null
  }

  attributeChangedCallback(name, before, value) {
    if (before === value) return
    if (name === 'view' && value) {
      // The first view, from the server that rendered the page.
      try {
        this.takeView(JSON.parse(value) ?? {})
      } catch {
        warn(`no view: ${value}`)
      }
    }
    if (!this.isConnected) return
    if (Follower.sources.includes(name)) this.#change()
    this.draw()
  }

  #change() {
    if (this.#leave) this.forget()
    this.#follow()
  }

  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {detail, bubbles: true, composed: true}))
  }

  // Returns a text: of the app, in the element's language, or in English.
  text(name) {
    const language = languageOf(this)
    return this.getAttribute(name) ?? (words[language] ?? words[language.split('-')[0]])?.[name]
      ?? this.constructor.texts[name]
  }

  // Several attributes may change together.
  #follow() {
    if (this.#isAsked) return
    this.#isAsked = true
    queueMicrotask(() => {
      this.#isAsked = false
      this.#leave?.()
      const alias = this.getAttribute('alias')
      let wasOnline
      this.#leave = this.isConnected && alias ? follow(source(this), alias, message => {
        const isOnline = ['hello', 'recovered'].includes(message.event)
        if (isOnline || ['offline', 'outage'].includes(message.event)) {
          this.toggleAttribute('data-offline', !isOnline)
          if (isOnline !== wasOnline) this.emit('countdown-connection', {isOnline})
          wasOnline = isOnline
        }
        this.take(message)
      }) : null
    })
  }
}

const formats = new Map()

// The words of countdown-languages.js.
export const words = {}
const languageOf = element => element.closest('[lang]')?.lang || document.documentElement.lang || 'en'

// Returns a number as text, in the language of an element. `name` is that of the options.
export function format(element, value, name, options) {
  const language = languageOf(element)
  const key = language + name
  if (!formats.has(key)) {
    // Nobody knows some languages.
    const make = language => formats.set(key, {texts: [], numbers: new Intl.NumberFormat(language, options)})
    try { make(language) } catch { make('en') }
  }
  const {texts, numbers} = formats.get(key)
  return value % 1 ? numbers.format(value) : texts[value] ??= numbers.format(value)
}

// Whether an attribute without a value is there. React 18 writes `false`.
export const isOn = (element, name) => (element.getAttribute(name) ?? 'false') !== 'false'

// Returns the attribute of a property that is not null or false.
export const asAttribute = value => value === true ? '' : typeof value === 'object' ? JSON.stringify(value) : value

// Writes a property into its attribute.
export function write(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name)
  else element.setAttribute(name, asAttribute(value))
}

// Defines an element, with a property for each attribute. Another version may be there already.
export function define(name, element) {
  for (const attribute of element.observedAttributes) {
    if (attribute in element.prototype) continue
    Object.defineProperty(element.prototype, attribute, {
      configurable: true, enumerable: true,
      get() { return element.flags?.includes(attribute) ? isOn(this, attribute) : this.getAttribute(attribute) },
      set(value) { write(this, attribute, value) },
    })
  }
  if (globalThis.customElements && !customElements.get(name)) customElements.define(name, element)
}
