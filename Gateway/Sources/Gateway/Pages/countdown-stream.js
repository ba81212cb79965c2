// The events of countdown-gateway, for all elements of a page that have the same ticket address.
// Pages use <countdown-button> and <countdown-hud>, or `follow` for their own elements.

const SILENCE = 40_000
const streams = new Map()
const wait = ms => new Promise(done => setTimeout(done, ms))

class Stream {
  views = new Map()
  followers = new Set()
  // How far the daemon's wall clock is ahead of performance.now(), as the fastest message of this
  // connection shows. It is for display: somebody may set that clock.
  offset = 0

  constructor(gateway, ticket) {
    this.events = new URL('v1/events', gateway)
    this.ticketAddress = ticket
    // While a page sleeps, performance.now() may stop.
    addEventListener('pageshow', event => event.persisted && this.again())
    document.addEventListener('visibilitychange', () => document.hidden || this.again())
    this.run()
  }

  again() {
    this.isHurried = true
    this.controller?.abort()
    this.wake?.()
  }

  async run() {
    for (let failures = 0; ; ) {
      this.controller = new AbortController()
      this.isHurried = false
      try {
        await this.read()
        failures = 0
      } catch {
        failures += 1
        this.tell({event: 'offline'})
      }
      if (this.isHurried) continue
      const pause = failures ? Math.min(250 * 2 ** failures, 10_000) : 100
      await Promise.race([wait(pause * (.75 + Math.random() / 2)), new Promise(go => this.wake = go)])
    }
  }

  async read() {
    this.isNew = true
    if (!this.ticket) {
      const answer = await fetch(this.ticketAddress, {cache: 'no-store', signal: this.controller.signal})
      if (!answer.ok) throw new Error(`ticket: ${answer.status}`)
      this.ticket = (await answer.text()).trim()
    }
    const headers = {Authorization: `Bearer ${this.ticket}`}
    if (this.last) headers['Last-Event-ID'] = this.last
    const answer = await fetch(this.events, {headers, cache: 'no-store', signal: this.controller.signal})
    if (!answer.ok) {
      if (answer.status === 401) this.ticket = null
      throw new Error(`events: ${answer.status}`)
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let text = ''; ; ) {
      const silence = setTimeout(() => this.controller.abort(), SILENCE)
      const {value, done} = await reader.read().finally(() => clearTimeout(silence))
      if (done) return
      text += value
      const blocks = text.split('\n\n')
      text = blocks.pop()
      for (const block of blocks) this.take(block)
    }
  }

  take(block) {
    const now = performance.now()
    let data = ''
    for (const line of block.split('\n')) {
      if (line.startsWith('id: ')) this.last = line.slice(4)
      if (line.startsWith('data: ')) data += line.slice(6)
    }
    if (!data) return
    const message = JSON.parse(data)
    // The gateway asks for a new ticket.
    if (message.event === 'end') this.ticket = null
    if (message.now_unix_ms) {
      this.offset = Math.max(this.isNew ? -Infinity : this.offset, message.now_unix_ms - now)
      this.isNew = false
    }
    // The daemon computes the remaining time with a clock that nobody can set, as is this one. A
    // message that was slow only makes the end later.
    if (message.remaining_ms != null) message.ends = now + message.remaining_ms
    if (message.alias) this.views.set(`${message.alias} ${message.level ?? ''}`, message)
    this.tell(message)
  }

  tell(message) { for (const follower of this.followers) follower(message) }
}

// Calls `body(message, stream)` with each message for the alias, and with those of the stream
// itself (hello, offline, outage, recovered, gap, end). Returns a function that stops this.
export function follow({gateway, ticket}, alias, body) {
  const name = `${gateway} ${ticket}`
  if (!streams.has(name)) streams.set(name, new Stream(gateway, ticket))
  const stream = streams.get(name)
  const follower = message => {
    if (message.alias === alias || message.alias === undefined) body(message, stream)
  }
  stream.followers.add(follower)
  for (const view of stream.views.values()) if (view.alias === alias) body(view, stream)
  return () => stream.followers.delete(follower)
}

// Returns the addresses in an element's attributes; the default gateway serves this file.
export const source = element => ({
  gateway: new URL(element.getAttribute('gateway') ?? '..', element.hasAttribute('gateway')
    ? document.baseURI : import.meta.url).href,
  ticket: new URL(element.getAttribute('ticket') ?? '/ticket', document.baseURI).href,
})
