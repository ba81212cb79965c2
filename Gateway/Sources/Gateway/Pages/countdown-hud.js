// <countdown-hud alias="upload" ticket="/ticket"></countdown-hud>
//
// Shows the HUD of a screen over the page, from will-appear to did-disappear.
//   alias, ticket, gateway  as for <countdown-button>
// The page receives `hud-tap` (detail.where is inside or outside) and tells its app, which sends
// HUD TAP. Style it with ::part(panel), ::part(status) and ::part(progress).
import {follow, source} from './countdown-stream.js'

// A style sheet object, because a page's Content-Security-Policy may forbid style elements.
const STYLE = new CSSStyleSheet()
STYLE.replaceSync(`
  :host { position: fixed; inset: 0; display: grid; place-items: center; z-index: 1000;
    opacity: 0; visibility: hidden; pointer-events: none }
  :host([data-state=appearing]), :host([data-state=visible]) { opacity: 1; visibility: visible }
  :host([data-state=appearing]) { transition: opacity .15s }
  :host([data-state=disappearing]) { visibility: visible; transition: opacity .15s }
  :host([data-mask=clear]), :host([data-mask=black]), :host([data-mask=gradient]) {
    pointer-events: auto }
  :host([data-state=hidden]), :host([data-state=waiting]) { pointer-events: none }
  :host([data-mask=black]) { background: #0008 }
  :host([data-mask=gradient]) { background: radial-gradient(#0002, #000a) }
  [part=panel] { display: grid; justify-items: center; gap: .75em; min-width: 6em; padding: 1.25em;
    border-radius: .75em; background: #222e; color: #fff; pointer-events: auto }
  :host([data-state=disappearing]) [part=panel] { pointer-events: none }
  i { width: 2em; height: 2em; border: .2em solid #fff5; border-top-color: #fff; border-radius: 50%;
    animation: turn 1s linear infinite }
  b { font-size: 2em; line-height: 1 }
  [hidden] { display: none }
  @keyframes turn { to { rotate: 1turn } }
  @media (prefers-reduced-motion: reduce) { i { animation-duration: 8s } :host { transition: none !important } }`)
const SHADOW = `<div part="panel" role="status"><i part="spinner"></i><b part="icon" aria-hidden="true"></b>
    <progress part="progress" max="1"></progress><span part="status"></span></div>`

const ICONS = {info: 'i', success: '✓', error: '✗'}
// The levels, topmost first; only the topmost HUD is shown.
const LEVELS = ['alert', 'statusbar', 'normal']

class CountdownHUD extends HTMLElement {
  #views = new Map()

  constructor() {
    super()
    this.attachShadow({mode: 'open'}).innerHTML = SHADOW
    this.shadowRoot.adoptedStyleSheets = [STYLE]
    this.addEventListener('click', event => {
      const where = event.composedPath().includes(this.#part('panel')) ? 'inside' : 'outside'
      this.dispatchEvent(new CustomEvent('hud-tap', {detail: {where}, bubbles: true}))
    })
  }

  connectedCallback() {
    this.#draw()
    this.leave = follow(source(this), this.getAttribute('alias'), message => {
      if (!message.alias || !('state' in message)) return
      // A snapshot without a level means that there is no HUD at all.
      if (message.level) this.#views.set(message.level, message)
      else this.#views.clear()
      this.#draw()
      this.dispatchEvent(new CustomEvent('hud-change', {detail: message}))
    })
  }

  disconnectedCallback() { this.leave() }

  #part(name) { return this.shadowRoot.querySelector(`[part=${name}]`) }

  #draw() {
    const views = LEVELS.map(level => this.#views.get(level)).filter(Boolean)
    const view = views.find(view => !['hidden', 'waiting'].includes(view.state)) ?? views[0] ?? {}
    const {state = 'hidden', mask = 'none', kind = 'loading', status, fraction} = view
    Object.assign(this.dataset, {state, mask, kind})
    this.#part('spinner').hidden = kind !== 'loading'
    this.#part('icon').textContent = ICONS[kind] ?? ''
    this.#part('icon').hidden = !ICONS[kind]
    const progress = this.#part('progress')
    progress.hidden = kind !== 'progress' && fraction == null
    if (fraction == null) progress.removeAttribute('value')
    else progress.value = fraction
    // Keeps the text of a HUD that is already hidden.
    if (state !== 'hidden') this.#part('status').textContent = status ?? ''
    this.#part('status').hidden = !this.#part('status').textContent
  }
}

customElements.define('countdown-hud', CountdownHUD)
