// <countdown-button alias="resend"><button>Send code</button></countdown-button>
//
// Shows a countdown on the app's own button, which cannot be pressed meanwhile. Without a ticket or a
// gateway, the button stays as it is. docs/reference/web.md describes the attributes.
import {Follower, define, format, isOn, warn, write} from './countdown-stream.js'

const TEXTS = {waiting: '{label} in {time}', left: '{duration} left', ready: '{label} is available',
  paused: 'Paused, {duration} left'}
const DAY = 86_400
const DIGITS = [1, 2].map(minimumIntegerDigits => ({minimumIntegerDigits, useGrouping: false}))
// The seconds left at which screen readers announce the time.
const ANNOUNCED = [30, 10]
// The time that a message takes to arrive must not show as another second, in milliseconds.
const SLACK = 200
// How long a press waits for its event before the button can be pressed again.
const PATIENCE = 1_000
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/
const HIDDEN = 'svg, [hidden], [aria-hidden=true]'
// Where a button keeps its own texts and attributes while ours are there. Its copies have it, too.
const SAVED = 'data-countdown'
const OURS = ['aria-disabled', 'aria-label', 'value']
const BUTTON = 'button, [role=button], input:is([type=submit], [type=button])'

const plain = (element, value, digits = 1) => format(element, value, digits, DIGITS[digits - 1])
const inUnit = (element, value, unit, unitDisplay) =>
  format(element, value, unit + unitDisplay, {style: 'unit', unit, unitDisplay})

function clock(element, seconds) {
  const parts = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].slice(seconds < 3600)
  const time = parts.map((part, index) => plain(element, part | 0, index ? 2 : 1)).join(':')
  return seconds < DAY ? time : `${inUnit(element, seconds / DAY | 0, 'day', 'short')} ${time}`
}

function duration(element, seconds) {
  const [size, unit] = seconds < 120 ? [1, 'second'] : seconds < 7200 ? [60, 'minute']
    : seconds < 2 * DAY ? [3600, 'hour'] : [DAY, 'day']
  return inUnit(element, Math.ceil(seconds / size), unit, 'long')
}

function textsIn(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
  const found = []
  while (walker.nextNode()) found.push(walker.currentNode)
  return found
}

let sheet

export class CountdownButton extends Follower {
  static observedAttributes = [...Follower.sources, 'view', 'pending', ...Object.keys(TEXTS)]

  static texts = TEXTS

  // For reading. Frameworks may write them, which has no effect.
  state = 'unknown'
  seconds = 0
  #state = 'unknown'
  #seconds = 0
  #isBlocked = false
  #message = null
  #isLive = false
  #pressed = -Infinity
  // Whether the submit of a press is still to come.
  #isSubmitting = false
  // The request of a press.
  #request = null
  #announced = Infinity
  #ends = 0
  // The seconds at the start.
  #longest = 0
  // The widths of its texts.
  #widths = {}
  // Its texts for its label, taken apart.
  #templates = {}
  #timer
  #said
  #button = null
  // The attributes of the button before ours, and its text nodes with their texts before ours.
  #attributes = {}
  #shown = {}
  // The texts of the label, and the label, during a drawing.
  #found = null
  #read = null
  #nodes = new WeakMap()
  #isSaved = false
  // Notices that the app changes the button or its texts.
  #observer

  static {
    // Before the listeners of the page, if this module loads first. `disabled` would take the focus.
    globalThis.addEventListener?.('click', event => {
      const path = event.composedPath()
      path.find(node => node instanceof CountdownButton)?.#click(event, path)
    }, true)
    // Scripts submit forms without a press.
    globalThis.addEventListener?.('submit', event => {
      const button = event.submitter ?? [...event.target.elements].find(one => one.type === 'submit')
      const host = button?.closest('countdown-button')
      if (host instanceof CountdownButton && button === host.#button) host.#submit(event)
    }, true)
  }

  constructor() {
    super()
    if (!sheet) {
      // A style sheet object, because a Content-Security-Policy may forbid style elements.
      sheet = new CSSStyleSheet()
      sheet.replaceSync(`
        ::slotted(*) { font-variant-numeric: tabular-nums; touch-action: manipulation }
        ::slotted([aria-disabled=true]) { cursor: not-allowed; border-style: dashed; box-shadow: inset 0 0 0 99em #8883 }
        @media (forced-colors: active) {
          ::slotted([aria-disabled=true]) { color: GrayText !important; border-color: GrayText !important }
        }
        span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }`)
    }
    const root = this.attachShadow({mode: 'open'})
    root.adoptedStyleSheets = [sheet]
    this.#said = document.createElement('span')
    this.#said.setAttribute('aria-live', 'polite')
    root.append(document.createElement('slot'), this.#said)
    this.#observer = new MutationObserver(() => this.draw())
    // While it has the focus, screen readers would read each second.
    for (const type of ['focusin', 'focusout']) this.addEventListener(type, () => this.draw())
  }

  connectedCallback() {
    super.connectedCallback()
    this.#observer.observe(this, {childList: true, subtree: true, characterData: true})
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.#observer.disconnect()
    clearTimeout(this.#timer)
    this.#drawButton(null, false)
  }

  // Whether a request of the app is under way. A promise says when it is over.
  get pending() {
    return isOn(this, 'pending')
  }

  set pending(value) {
    const request = this.#request = value?.then ? value : null
    write(this, 'pending', !!request || value)
    const end = time => {
      if (this.#request !== request) return
      this.#pressed = time
      this.pending = false
    }
    // The event may come a moment later.
    request?.then(() => end(performance.now()), () => end(-Infinity))
  }

  takeView({state, remaining_ms}) {
    if (this.#isLive && !this.hasAttribute('data-offline')) return
    this.#message = {state, remaining_ms, ends: performance.now() + remaining_ms}
  }

  forget() {
    this.#message = null
    this.#isLive = false
    this.#pressed = -Infinity
  }

  take(message) {
    if (message.alias === undefined) return this.draw()
    if (!('state' in message)) return
    if (!message.missed) {
      this.#message = message
      this.#isLive = true
      this.#pressed = -Infinity
      this.#isSubmitting = false
      this.draw()
      if (!this.#button) warn('put a <button> into <countdown-button>')
    }
    this.emit('countdown-change', message)
  }

  #click(event, path) {
    if (!path.includes(this.#button)) return
    const isValid = !this.#button.matches('form:invalid [type=submit], form:invalid button:not([type])')
    if (this.#press(event, isValid)) this.#isSubmitting = true
  }

  #submit(event) {
    if (!this.#isSubmitting) this.#press(event, true)
    this.#isSubmitting = false
  }

  // Returns whether the button can be pressed.
  #press(event, isValid) {
    // The timer may be late.
    this.draw()
    if (this.#isBlocked) {
      event.stopImmediatePropagation()
      event.preventDefault()
      return false
    }
    if (this.#state === 'ready' && isValid && !this.hasAttribute('data-offline')) {
      // A second press before the countdown starts would be one too many.
      this.#pressed = performance.now()
      this.draw()
    }
    return true
  }

  draw() {
    clearTimeout(this.#timer)
    const now = performance.now()
    const before = this.#state
    const {state, ends, remaining_ms} = this.#message ?? {}
    let left = state === 'counting' ? Math.max(ends - now, 0) : state === 'paused' ? remaining_ms : 0
    // Offline, nobody would end a pause.
    const isUnknown = !state || !(left >= 0) || state === 'paused' && this.hasAttribute('data-offline')
    if (isUnknown) left = 0
    this.state = this.#state = isUnknown ? 'unknown' : left > 0 ? state : 'ready'
    this.seconds = this.#seconds = left > 0 ? Math.max(Math.ceil((left - SLACK) / 1_000), 1) : 0
    this.#isBlocked = left > 0 || now - this.#pressed < PATIENCE || this.pending
    if (this.getAttribute('data-state') !== this.#state) this.setAttribute('data-state', this.#state)
    // A start, or a later end.
    if (this.#state === 'counting' && (before !== 'counting' || ends > this.#ends + 500)) {
      this.#announced = Infinity
      this.#longest = this.#seconds
    }
    if (this.#state === 'paused') this.#longest = Math.max(this.#longest, this.#seconds)
    this.#ends = ends
    const button = this.querySelector(BUTTON)
      // A design system has buttons of its own.
      ?? [...this.querySelectorAll('*')].find(one => one.localName.includes('-')) ?? null
    if (button !== this.#button) this.#adopt(button)
    const isAnnounced = this.#announce(before)
    this.#drawButton(button && this.#seconds > 0 ? this.#fill('waiting', true) : null, this.#isBlocked, isAnnounced)
    const wait = this.#state !== 'counting' ? this.#pressed + PATIENCE - now
      : left > SLACK ? (left - SLACK) % 1_000 || 1_000 : left
    if (wait > 0 && this.isConnected) this.#timer = setTimeout(() => this.draw(), Math.ceil(wait))
  }

  // Returns whether the time was announced.
  #announce(before) {
    const [state, seconds] = [this.#state, this.#seconds]
    if (state !== 'counting') {
      if (state !== before) this.#say(state === 'paused' || before === 'counting' && state === 'ready' ? state : null)
      return false
    }
    const isDue = this.#announced === Infinity
      || ANNOUNCED.some(at => seconds <= at && at < this.#announced)
    if (isDue) this.#announced = seconds
    // What was said a while ago is no longer true.
    if (isDue || seconds < this.#announced - 5) this.#say(isDue ? 'left' : null)
    return isDue
  }

  #say(name) {
    const text = name && this.#button ? this.#fill(name).join(this.#label) : ''
    if (this.#said.textContent !== text) this.#said.textContent = text
  }

  // Takes over a button. Copies of one that counted, as Turbo and `innerHTML` make them, are restored.
  #adopt(button) {
    this.#drawButton(null, false)
    this.#found = this.#read = null
    this.#button = button
    this.#attributes = {}
    this.#isSaved = false
    try {
      const [texts, attributes] = JSON.parse(button.getAttribute(SAVED))
      button.normalize()
      textsIn(button).forEach((node, index) => { node.data = texts[index] })
      for (const name of OURS) if (name in attributes) this.#write(name, attributes[name])
      button.removeAttribute(SAVED)
    } catch {
      // There is no button, or it is none of these.
    }
  }

  #write(name, value) {
    if (value === null) this.#button.removeAttribute(name)
    else if (this.#button.getAttribute(name) !== value) this.#button.setAttribute(name, value)
  }

  // Parsers join texts side by side, and drop empty ones.
  #save(isOurs) {
    if (!isOurs) return this.#write(SAVED, null)
    if (this.#isSaved && this.#button.hasAttribute(SAVED)) return
    this.#isSaved = true
    const texts = []
    let last
    for (const node of textsIn(this.#button)) {
      const own = this.#ownText(node)
      if (last && last.nextSibling === node) texts[texts.length - 1] += own
      else texts.push(own)
      last = node
    }
    this.#write(SAVED, JSON.stringify([texts.filter(Boolean), this.#attributes]))
  }

  // Shows a text around the label of the button; null gives it back to the app.
  #drawButton(parts, isBlocked, isAnnounced) {
    const button = this.#button
    if (!button) return
    this.#set('aria-disabled', isBlocked ? 'true' : null)
    const text = parts && parts.join(this.#label)
    this.#texts.forEach((node, index, all) => {
      const own = this.#ownText(node)
      const label = own.trim()
      // An empty text would be missing in a copy.
      const at = own.indexOf(label)
      const shown = !parts ? own : own.slice(0, at) + (parts.length !== 2 ? index ? ' ' : text
        : (index ? '' : parts[0]) + label + (all[index + 1] ? '' : parts[1])) + own.slice(at + label.length)
      if (this.#nodes.get(node)?.own !== own) this.#isSaved = false
      this.#nodes.set(node, {own, shown})
      if (node.data !== shown) node.data = shown
    })
    // The name that the app gives its button has the time, too. While the button has the focus, its
    // name changes only with an announcement: screen readers read each change.
    const isFocused = button.matches(':focus')
    if (text === null || !isFocused && this.#name === null) this.#set('aria-label', null)
    else if (!isFocused || isAnnounced || !('aria-label' in this.#attributes)) this.#set('aria-label', text)
    if (button.localName === 'input') this.#set('value', text)
    this.#save(isBlocked || text !== null)
    this.#found = this.#read = null
    // These were our own changes.
    this.#observer.takeRecords()
  }

  // The name that the app gives its button; null if there is only the text.
  get #name() {
    return this.#own('aria-label')
  }

  // What the app gives an attribute of its button.
  #own(name) {
    const now = this.#button.getAttribute(name)
    return name in this.#attributes && now === this.#shown[name] ? this.#attributes[name] : now
  }

  // The text nodes of the label. Frameworks find them again, as they are never replaced.
  get #texts() {
    return this.#found ??= this.#findTexts()
  }

  #findTexts() {
    const all = textsIn(this.#button)
      .filter(node => this.#ownText(node).trim() && !node.parentElement.closest(HIDDEN))
    // A badge has no letters.
    const found = all.filter(node => node.parentNode === this.#button || /\p{L}/u.test(this.#ownText(node)))
    return found[0] ? found : all
  }

  get #label() {
    return this.#read ??= this.#name ?? (this.#button.localName === 'input' ? this.#own('value') ?? ''
      : this.#texts.map(node => this.#ownText(node).trim()).join(' '))
  }

  #ownText(node) {
    const known = this.#nodes.get(node)
    return known && known.shown === node.data ? known.own : node.data
  }

  // Sets an attribute of the button; null gives it back to the app.
  #set(name, value) {
    const attributes = this.#attributes
    if (value === null && !(name in attributes)) return
    const own = this.#own(name)
    if (attributes[name] !== own) this.#isSaved = false
    if (value === null) delete attributes[name]
    else attributes[name] = own
    this.#shown[name] = value
    this.#write(name, value ?? own)
  }

  // Returns what is around the label in a text.
  #fill(name, isPadded) {
    const [text, label] = [this.text(name), this.#label]
    let known = this.#templates[name]
    if (known?.text !== text || known.label !== label) {
      known = this.#templates[name] = {
        text, label, parts: text.split('{label}').map(part => part.split(/\{(\w+)\}/)),
        // As in <bdi>, and only where directions meet.
        marks: RIGHT_TO_LEFT.test(text + label) ? '\u2068\u2069' : ['', ''],
      }
    }
    const [open, close] = known.marks
    return known.parts.map((part, index, all) => (index ? close : '') + part.map((piece, at) => {
      if (at % 2 === 0) return piece
      const format = {seconds: plain, time: clock, duration}[piece]
      if (!format) return `{${piece}}`
      const shown = format(this, this.#seconds)
      // Figure spaces keep the width when there is a digit less.
      const width = isPadded && piece !== 'duration'
        ? this.#widths[piece + this.#longest] ??= format(this, this.#longest).length : 0
      return open + shown.padStart(width, '\u2007') + close
    }).join('') + (all[index + 1] ? open : ''))
  }
}

define('countdown-button', CountdownButton)
