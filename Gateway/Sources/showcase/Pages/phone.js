// The phone: shows the pages of the stack, sends the actions of buttons, and handles swipes back.
import {$, act, element, rows, say} from './page.js'

const articles = [...document.querySelectorAll('article')]
const stack = $('stack')
let pages = [], state, drag

// MARK: Display

export function show(next) {
  state = next
  const {pages: names = [], transition, fraction} = state.stack ?? {}
  const isNewTop = names.at(-1) !== pages.at(-1)
  pages = names
  for (const article of articles) {
    const depth = pages.indexOf(article.dataset.page)
    const isTop = depth >= 0 && depth === pages.length - 1
    article.classList.toggle('top', isTop)
    // The page below is visible while the top page moves.
    article.hidden = !isTop && !(transition && depth === pages.length - 2)
    article.inert = !isTop
    article.style.zIndex = depth
  }
  if (!drag) stack.style.setProperty('--shift', transition === 'swipe' ? fraction ?? 0 : 0)
  stack.dataset.transition = transition ?? ''
  if (isNewTop) focusTop()
  showList(state)
  showLogin(state)
  showForm(state)
  rows($('orders'), state.orders.length ? state.orders : ['You have ordered nothing yet.'],
    () => element('li'), (item, text) => item.textContent = text)
  rows($('rows'), state.scopes.filter(one => one.parent === 'table').map(one => one.key),
    row, (item, name) => {
      item.firstChild.textContent = `Tap ${name}`
      item.firstChild.dataset.page = item.lastChild.dataset.page = name
      item.lastChild.setAttribute('aria-label', `Remove ${name}`)
    })
  for (const name of ['answer', 'taker'])
    for (const radio of document.getElementsByName(name)) radio.checked = radio.value === state[name]
}

function focusTop() {
  // Takes the focus only from the phone, or if no element has it.
  if ($('phone').contains(document.activeElement) || document.activeElement === document.body)
    document.querySelector('article.top h2')?.focus({preventScroll: true})
}

const views = {}

export function take(message) {
  views[message.alias] = message
  if (state) show(state)
}

function showList({items}) {
  const {state = 'unknown', message} = views.list ?? {}
  const shown = state === 'refreshing' ? (items.length ? 'content' : 'empty') : state
  for (const part of document.querySelectorAll('[data-for]')) part.hidden = part.dataset.for !== shown
  $('refreshing').hidden = state !== 'refreshing'
  $('error').textContent = message ?? 'The server did not answer in time.'
  $('retry').hidden = !['error', 'empty'].includes(state)
  $('refresh').hidden = state !== 'content'
  rows($('items'), items, () => element('li'), (item, text) => item.textContent = text)
}

function showLogin({why: {why, limits}, attempts}) {
  $('why').textContent = [`The daemon says: ${why}.`, ...limits.map(limit => `${limit}.`),
    attempts == null ? '' : `Attempts left: ${attempts}.`].join(' ')
}

function showForm({orders}) {
  const isSent = views.order?.state === 'done'
  $('sent').textContent = isSent ? `Sent as “${orders.at(-1)}”.` : ''
  $('another').hidden = !isSent
}

function row() {
  const item = element('li')
  const tap = element('button')
  const remove = element('button', {textContent: '✗', className: 'small'})
  tap.dataset.do = 'tap-row'
  remove.dataset.do = 'remove-row'
  item.append(tap, remove)
  return item
}

// MARK: Buttons

export const lights = new EventTarget()

async function press(target) {
  const {do: action, ...input} = target.dataset
  say('')
  const answer = await act(action, input)
  if (action === 'tap-row' && answer && !answer.say) {
    if (!answer.took) say('Nobody took the tap.')
    lights.dispatchEvent(new CustomEvent('tap', {detail: answer}))
  }
}

stack.addEventListener('click', event => {
  const target = event.target.closest('button[data-do]')
  if (target) press(target)
})
stack.addEventListener('change', event => {
  if (event.target.type === 'radio') act(event.target.name, {value: event.target.value})
})
stack.addEventListener('submit', event => {
  event.preventDefault()
  const answer = act(event.target.dataset.do, Object.fromEntries(new FormData(event.target)))
  // The button cannot be pressed again while the request is under way.
  const button = event.target.querySelector('countdown-button')
  if (button) button.pending = answer
})
// The phone shows whether the button's stream is connected.
document.addEventListener('countdown-connection', event =>
  $('phone').classList.toggle('offline', !event.detail.isOnline))

const isShown = () => ['appearing', 'visible'].includes(views.hud?.state)
$('hud').addEventListener('hud-tap', event => act('tap', {where: event.detail.where}))
// Without a mask, a tap beside the HUD reaches both the page and the daemon.
stack.addEventListener('pointerdown', () => { if (isShown()) act('tap', {where: 'outside'}) })
document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && isShown()) act('tap', {where: 'outside'})
})

// MARK: Swipes

// The pixels that a finger moves before a swipe begins, and the fraction that finishes it.
const SLOP = 8
const ENOUGH = .4

stack.addEventListener('pointerdown', event => {
  if (!event.isPrimary || event.button || event.target.closest('input')) return
  const box = stack.getBoundingClientRect()
  drag = {id: event.pointerId, x: event.clientX - box.left, y: event.clientY, width: box.width}
})

addEventListener('pointermove', event => {
  if (event.pointerId !== drag?.id) return
  const {x, width} = drag
  const dx = event.clientX - stack.getBoundingClientRect().left - x
  drag.fraction = Math.min(Math.max(dx / width, 0), 1)
  if (!drag.asked) {
    if (Math.abs(event.clientY - drag.y) > Math.abs(dx)) drag.y = event.clientY
    else if (Math.abs(dx) > SLOP) {
      stack.setPointerCapture?.(event.pointerId)
      drag.asked = begin(drag, {x: `${x}`, dx: `${dx}`})
    }
  } else if (drag.generation) {
    follow(drag)
  }
})

async function begin(mine, input) {
  const answer = await act('swipe', input)
  if (!answer?.accepted) return
  mine.generation = `${answer.generation}`
  stack.dataset.transition = 'swipe'
  follow(mine)
}

function follow(mine) {
  stack.style.setProperty('--shift', mine.fraction)
  report(mine)
}

// Reports only the newest position, one request at a time.
async function report(mine) {
  mine.isWanted = true
  if (mine.reporting) return
  mine.reporting = (async () => {
    while (mine.isWanted) {
      mine.isWanted = false
      await act('progress', {fraction: `${mine.fraction}`, generation: mine.generation})
    }
  })()
  await mine.reporting
  mine.reporting = undefined
}

async function end(event) {
  if (event.pointerId !== drag?.id) return
  const mine = drag
  if (!mine.asked) return drag = undefined
  // The press that began the swipe must not click.
  const swallow = click => click.stopPropagation()
  stack.addEventListener('click', swallow, {capture: true})
  setTimeout(() => stack.removeEventListener('click', swallow, {capture: true}))
  await mine.asked
  if (mine.generation) {
    const isFinished = event.type === 'pointerup' && mine.fraction > ENOUGH
    stack.classList.add('settling')
    stack.style.setProperty('--shift', isFinished ? 1 : 0)
    await mine.reporting
    await act(isFinished ? 'finish' : 'cancel', {generation: mine.generation})
    stack.classList.remove('settling')
  }
  if (drag === mine) drag = undefined
  stack.style.setProperty('--shift', 0)
}
addEventListener('pointerup', end)
addEventListener('pointercancel', end)
