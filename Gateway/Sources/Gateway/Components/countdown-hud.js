// <countdown-hud alias="upload"></countdown-hud>
//
// Shows the HUD of a screen in the browser's top layer, from will-appear to did-disappear. With a
// mask it is a modal dialog: the page below is inert. docs/reference/web.md describes the attributes.
import {Follower, define, format} from './countdown-stream.js'

const ICONS = {info: 'i', success: '✓', error: '✗'}
const TEXTS = {loading: 'Loading', progress: 'Progress', info: 'Information', success: 'Success',
  error: 'Error', lost: 'The connection is lost'}
// The levels, topmost first; only the topmost HUD is shown.
const LEVELS = ['alert', 'statusbar', 'normal']
// The seconds without a connection after which a mask is released.
const PATIENCE = 30
// What a HUD over a part of the page has made inert.
const INERT = 'data-hud-inert'

const STYLE = `
  :host { display: contents }
  [part=layer] { position: fixed; inset: 0; box-sizing: border-box; width: auto; height: auto;
    max-width: none; max-height: none; margin: 0; border: 0; background: none; overflow: hidden;
    outline: none; padding: max(1rem, env(safe-area-inset-top)) max(1rem, env(safe-area-inset-right))
      max(1rem, env(safe-area-inset-bottom)) max(1rem, env(safe-area-inset-left));
    place-items: center; pointer-events: none; transition: opacity .15s }
  :is([open], :popover-open) { display: grid }
  ::backdrop { background: none }
  :host([contained]:not([contained=false])) { display: block; position: absolute; inset: 0; z-index: 1; pointer-events: none }
  :host([contained]:not([contained=false])) [part=layer] { position: absolute }
  :host([data-state=disappearing]) [part=layer] { opacity: 0 }
  @starting-style { :host([data-state=appearing]) :is([open], :popover-open) { opacity: 0 } }
  .masked { pointer-events: auto }
  .black { background: var(--countdown-hud-mask, #0008) }
  .gradient { background: radial-gradient(#0002, #000a) }
  [part=panel] { display: grid; justify-items: center; gap: .75em; box-sizing: border-box; min-width: 6em;
    max-width: min(100%, 22em); padding: 1.25em; border: 1px solid #0000; border-radius: .75em;
    background: var(--countdown-hud-panel, #222e); color: var(--countdown-hud-text, #fff);
    text-align: center; overflow-wrap: anywhere; pointer-events: auto }
  [part=status] { max-width: 100% }
  progress { max-width: 100% }
  i { width: 2em; height: 2em; border: .2em solid; border-color: currentColor #8888 #8888; border-radius: 50%;
    animation: turn 1s linear infinite }
  b { font-size: 2em; line-height: 1 }
  [hidden] { display: none }
  #name { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  @keyframes turn { to { rotate: 1turn } }
  @media (prefers-reduced-motion: reduce) { i { animation-duration: 8s } [part=layer] { transition: none } }
  @media (forced-colors: active) { i { border-color: GrayText; border-top-color: Highlight } }`
let sheet

const element = (name, attributes, ...children) => {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

export class CountdownHUD extends Follower {
  static observedAttributes = [...Follower.sources, 'view', 'patience', 'contained', ...Object.keys(TEXTS)]
  static texts = TEXTS
  static flags = ['contained']

  #views = new Map()
  #isLive = false
  // The dialog has the panel while there is a mask. A popover takes no focus.
  #dialog
  #popover
  #parts
  // none, popover, modal; over a part of the page: open, masked.
  #mode = 'none'
  #inert = []
  // Others come while a part of the page is masked.
  #siblings = new MutationObserver(() => this.#shield())
  #focused
  #patience
  // The connection is lost for too long; then also: the message about it was tapped.
  #isLost = false
  #isDismissed = false

  constructor() {
    super()
    if (!sheet) {
      // A style sheet object, because a Content-Security-Policy may forbid style elements.
      sheet = new CSSStyleSheet()
      sheet.replaceSync(STYLE)
    }
    const root = this.attachShadow({mode: 'open'})
    root.adoptedStyleSheets = [sheet]
    this.#parts = {
      spinner: element('i', {part: 'spinner'}),
      icon: element('b', {part: 'icon', 'aria-hidden': true}),
      progress: element('progress', {part: 'progress', max: 1}),
      status: element('span', {part: 'status', dir: 'auto'}),
      name: element('span', {id: 'name'}),
    }
    this.#parts.panel = element('div', {part: 'panel', role: 'status', tabindex: 0}, ...Object.values(this.#parts))
    this.#dialog = element('dialog', {part: 'layer', closedby: 'none'})
    this.#popover = element('div', {part: 'layer', popover: 'manual'}, this.#parts.panel)
    root.append(this.#dialog, this.#popover)
    // Only the daemon ends a HUD.
    this.#dialog.addEventListener('cancel', event => event.preventDefault())
    this.#dialog.addEventListener('close', () => {
      if (this.#mode !== 'modal' || this.#dialog.open) return
      this.#mode = 'none'
      this.draw()
    })
    const tap = where => {
      if (this.#isLost) {
        this.#isDismissed = where === 'inside'
        this.draw()
      }
      this.emit('hud-tap', {where})
    }
    this.addEventListener('click', event =>
      tap(event.composedPath().includes(this.#parts.panel) ? 'inside' : 'outside'))
    this.addEventListener('keydown', event => {
      if (!['Enter', ' '].includes(event.key)) return
      event.preventDefault()
      if (!event.repeat) tap('inside')
    })
  }

  // The top layer has what opened last on top.
  #raise = event => {
    if (event.newState !== 'open') return
    this.#dialog.close()
    this.#dialog.showModal()
  }

  connectedCallback() {
    // A copy of the page has the marks of the one that was masked.
    for (const other of this.parentNode.children) {
      if (other.hasAttribute(INERT)) this.#setInert(other, false)
    }
    super.connectedCallback()
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.#open('none')
    clearTimeout(this.#patience)
    this.#patience = null
  }

  takeView(view) {
    if (!this.#isLive) this.#views.set(view.level ?? 'normal', view)
  }

  forget() {
    this.#views.clear()
    this.#isLive = false
  }

  take(message) {
    if (message.alias === undefined) return this.#watchConnection()
    if (!('state' in message)) return
    if (!message.missed) {
      // A snapshot without a level means that there is no HUD at all.
      if (!this.#isLive) this.forget()
      this.#isLive = true
      if (message.level) this.#views.set(message.level, message)
      else this.#views.clear()
      this.draw()
    }
    this.emit('hud-change', message)
  }

  // A mask must not outlive the connection to those who end it.
  #watchConnection() {
    if (this.hasAttribute('data-offline')) {
      this.#patience ??= setTimeout(() => {
        this.#isLost = true
        this.draw()
      }, 1_000 * (this.getAttribute('patience') ?? PATIENCE))
    } else {
      clearTimeout(this.#patience)
      this.#patience = null
      this.#isLost = this.#isDismissed = false
      this.draw()
    }
  }

  draw() {
    const views = LEVELS.map(level => this.#views.get(level)).filter(Boolean)
    const isShown = view => !['hidden', 'waiting'].includes(view.state)
    const view = views.find(isShown) ?? views[0] ?? {state: 'hidden'}
    const {state, mask = 'none', kind = 'loading', status, fraction} = view
    // While it is lost, only a mask is worth a message.
    const isReleased = this.#isLost && mask !== 'none'
    for (const [name, value] of Object.entries({state, mask, kind})) this.setAttribute(`data-${name}`, value)
    this.toggleAttribute('data-released', isReleased)
    const {spinner, icon, progress, status: shown, name} = this.#parts
    spinner.hidden = kind !== 'loading' || isReleased
    icon.textContent = isReleased ? '!' : ICONS[kind] ?? ''
    icon.hidden = !icon.textContent
    progress.hidden = kind !== 'progress' && fraction == null || isReleased
    if (fraction == null) for (const name of ['value', 'aria-valuetext']) progress.removeAttribute(name)
    else {
      progress.value = fraction
      progress.setAttribute('aria-valuetext', format(this, fraction, '%', {style: 'percent'}))
    }
    // Keeps the text of a HUD that is already hidden.
    if (state !== 'hidden') shown.textContent = isReleased ? this.text('lost') : status ?? ''
    shown.hidden = !shown.textContent
    const label = shown.textContent || (this.text(kind) ?? this.text('loading'))
    name.textContent = shown.textContent ? '' : label
    progress.setAttribute('aria-label', label)
    this.#dialog.setAttribute('aria-label', label)
    const isMasked = mask !== 'none' && !isReleased
    this.#dialog.className = `masked ${mask}`
    this.#open(!isShown(view) || isReleased && this.#isDismissed ? 'none'
      : this.contained ? isMasked ? 'masked' : 'open' : isMasked ? 'modal' : 'popover')
  }

  #open(mode) {
    const [dialog, popover, panel] = [this.#dialog, this.#popover, this.#parts.panel]
    if (mode === this.#mode || mode !== 'none' && !this.isConnected) return
    this.#mode = mode
    document.removeEventListener('toggle', this.#raise, true)
    this.#siblings.disconnect()
    if (dialog.matches(':modal')) dialog.close()
    dialog.removeAttribute('open')
    if (popover.matches(':popover-open')) popover.hidePopover()
    popover.removeAttribute('open')
    if (this.#inert.length) {
      for (const other of this.#inert.splice(0)) this.#setInert(other, false)
      this.#focused?.focus({preventScroll: true})
    }
    if (mode === 'none') return
    const layer = mode[0] === 'm' ? dialog : popover
    if (panel.parentNode !== layer) layer.append(panel)
    if (mode === 'modal') {
      document.addEventListener('toggle', this.#raise, true)
      return dialog.showModal()
    }
    if (mode === 'popover') return popover.showPopover()
    // A part of a page has no top layer, and what is beside the HUD is inert.
    layer.setAttribute('open', '')
    if (mode === 'open') return
    this.#focused = document.activeElement
    this.#shield()
    this.#siblings.observe(this.parentNode, {childList: true})
  }

  #shield() {
    for (const other of this.parentNode.children) {
      if (other === this || other.inert) continue
      this.#inert.push(other)
      this.#setInert(other, true)
    }
  }

  #setInert(other, isInert) {
    other.inert = isInert
    other.toggleAttribute(INERT, isInert)
  }
}

define('countdown-hud', CountdownHUD)
