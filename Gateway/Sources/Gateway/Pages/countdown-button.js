// <countdown-button alias="resend" ticket="/ticket">Send code</countdown-button>
//
// A button that cannot be pressed while a countdown runs; then `click` does not reach the page.
//   alias    the name of the countdown in the ticket
//   ticket   the address at which the app returns a ticket (default: /ticket)
//   gateway  the address of countdown-gateway (default: the gateway that serves this file)
//   waiting  its label meanwhile (default: "{label} in {time}"); {time} is 0:59, {seconds} is 59
//   left, ready  the texts for screen readers: "{seconds} seconds left", "{label} is available"
// Style it with ::part(button), and with [data-state="waiting"].
import {follow, source} from './countdown-stream.js'

// A style sheet object, because a page's Content-Security-Policy may forbid style elements.
const STYLE = new CSSStyleSheet()
STYLE.replaceSync(`
  :host { display: inline-block }
  button { font: inherit; width: 100%; padding: .5em 1em; font-variant-numeric: tabular-nums;
    touch-action: manipulation }
  [aria-disabled=true] { opacity: .6; cursor: not-allowed }
  #said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  [hidden] { display: none }`)
const SHADOW = `<button part="button" type="button"><slot></slot><span id="timer" part="timer" role="timer"
    aria-live="off" hidden></span></button><span id="said" aria-live="polite"></span>`

// The seconds left at which screen readers announce the time.
const TOLD = [30, 10]
const SLACK = 200
// How long a press waits for its event before the button can be pressed again, in milliseconds.
const PATIENCE = 3_000

class CountdownButton extends HTMLElement {
  #end = 0
  #pressed = -Infinity
  #told = Infinity

  constructor() {
    super()
    this.attachShadow({mode: 'open', delegatesFocus: true}).innerHTML = SHADOW
    this.shadowRoot.adoptedStyleSheets = [STYLE]
    this.button = this.shadowRoot.querySelector('button')
    // Captures the click before the page's listeners. `disabled` would take the focus away.
    this.addEventListener('click', event => {
      if (this.isWaiting) {
        event.stopImmediatePropagation()
        event.preventDefault()
      } else {
        this.#pressed = performance.now()
        this.#draw()
      }
    }, true)
  }

  connectedCallback() {
    this.leave = follow(source(this), this.getAttribute('alias'), this.#take)
    this.#draw()
  }

  disconnectedCallback() {
    this.leave()
    clearTimeout(this.timer)
  }

  get left() { return Math.max(this.#end - performance.now(), 0) }
  get isWaiting() {
    return this.isPaused || this.left > 0 || performance.now() - this.#pressed < PATIENCE
  }

  #take = (message, stream) => {
    if (!message.alias || !('state' in message)) return
    this.stream = stream
    this.#pressed = -Infinity
    this.isPaused = message.state === 'paused'
    const end = message.state === 'counting' ? message.ends ?? this.#end : 0
    if (end > this.#end + 500) this.#told = Infinity
    this.#end = end
    this.#draw()
    this.dispatchEvent(new CustomEvent('countdown-change', {detail: message}))
  }

  #draw() {
    clearTimeout(this.timer)
    // The time that a message takes to arrive must not show as another second.
    const left = Math.max(this.left - SLACK, this.left > 0)
    const seconds = Math.ceil(left / 1_000)
    const label = this.textContent.trim()
    const fill = (name, text) => (this.getAttribute(name) ?? text)
      .replaceAll('{label}', label).replaceAll('{seconds}', seconds)
      .replaceAll('{time}', `${seconds / 60 | 0}:${String(seconds % 60).padStart(2, 0)}`)
    const timer = this.shadowRoot.getElementById('timer')
    this.button.setAttribute('aria-disabled', this.isWaiting)
    this.dataset.state = this.isWaiting ? 'waiting' : 'ready'
    timer.hidden = !seconds
    this.shadowRoot.querySelector('slot').hidden = seconds > 0
    timer.textContent = seconds ? fill('waiting', '{label} in {time}') : ''
    // Screen readers announce the start, 30 s, 10 s, and that the button can be pressed.
    const said = this.shadowRoot.getElementById('said')
    if (seconds && TOLD.concat(Infinity).some(at => this.#told >= at && seconds <= at)) {
      this.#told = Math.min(seconds, ...TOLD.filter(at => seconds <= at).map(at => at - 1))
      said.textContent = fill('left', '{seconds} seconds left')
    } else if (!seconds && this.#told !== Infinity) {
      this.#told = Infinity
      said.textContent = fill('ready', '{label} is available')
    }
    if (!this.isWaiting) return
    this.timer = setTimeout(() => this.#draw(), left > 1 ? left % 1_000 || 1_000 : this.left || 100)
  }
}

customElements.define('countdown-button', CountdownButton)
