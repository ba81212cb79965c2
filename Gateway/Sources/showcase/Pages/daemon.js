// The daemon's view: events on a time axis with the bars of HUDs, scopes, stack, newest events.
import {lights, take as showOnPhone} from './phone.js'
import {$, element, rows} from './page.js'

const SPAN = 12_000
// Lanes by alias; all scopes share one. GRACE, MIN and MAX have bars only.
const LANES = {login: 'countdown', session: 'gate', hud: 'HUD', grace: 'GRACE', min: 'MIN', max: 'MAX',
  nav: 'stack', list: 'page', order: 'once', scope: 'scopes'}
const MOST_LINES = 10, MOST_DOTS = 80, MOST_HUDS = 20

let offset = -Infinity, epoch, state
const strips = {}
const clock = new Intl.DateTimeFormat('en', {timeStyle: 'medium', hourCycle: 'h23'})

// MARK: Time axis

for (const [lane, name] of Object.entries(LANES)) {
  const strip = element('div', {className: 'strip'})
  const track = element('div', {className: `track ${lane}`})
  track.append(strip)
  $('lanes').append(element('span', {textContent: name}), track)
  strips[lane] = strip
}
const axis = element('div', {className: 'axis'})
for (const seconds of [12, 9, 6, 3, 0])
  axis.append(element('span', {textContent: seconds ? `−${seconds} s` : 'now'}))
$('lanes').append(element('span'), axis)

// The time of the daemon, as its fastest message shows.
const now = () => performance.now() + offset
const place = (child, from, to) => {
  child.style.left = `${(from - epoch) / SPAN * 100}%`
  if (to !== undefined) child.style.width = `${Math.max(to - from, 0) / SPAN * 100}%`
}

function bar(lane) {
  const child = element('i', {className: `bar ${lane}`})
  strips[lane].append(child)
  return child
}

// HUDs, with the times when they appeared, were fully visible, and disappeared.
const huds = []

function takeHUD({state, now_unix_ms: at}) {
  let hud = huds.findLast(one => !one.gone)
  if (!['appearing', 'visible', 'disappearing'].includes(state)) {
    if (hud) hud.gone = at
    return
  }
  if (!hud) huds.push(hud = {shown: at, bar: bar('hud')})
  if (huds.length > MOST_HUDS) huds.shift()
  if (state === 'visible') hud.visible ??= at
}

// The maximum delay between a request, after its grace, and its HUD, in milliseconds.
const SLACK = 100

// The bars of each request. MIN and MAX begin when its HUD is fully visible.
const drawn = new Map()
function drawShow(show) {
  const bars = drawn.get(show.at) ?? {}
  drawn.set(show.at, bars)
  const hud = huds.find(one => one.visible && !(one.gone <= show.at)
    && one.shown <= show.at + show.grace + SLACK)
  if (show.grace) place(bars.grace ??= bar('grace'), show.at, show.at + show.grace)
  for (const lane of ['min', 'max']) {
    if (!hud || !show[lane] || bars[lane]) continue
    const from = Math.max(hud.visible, show.at)
    place(bars[lane] = bar(lane), from, from + show[lane])
  }
}

function tick() {
  if (epoch && !document.hidden) {
    const time = now()
    for (const strip of Object.values(strips))
      strip.style.transform = `translateX(${(epoch - time) / SPAN * 100 + 100}%)`
    for (const hud of huds) place(hud.bar, hud.shown, hud.gone ?? Math.max(time, hud.shown))
  }
  setTimeout(() => requestAnimationFrame(tick), still.matches ? 1_000 : 30)
}
const still = matchMedia('(prefers-reduced-motion: reduce)')
tick()

// MARK: Events

const log = []
const details = ({reason, state, page, end, status, remaining, attempts_left: attempts, bar, items}) =>
  [reason ?? end, page, state, status, remaining && `${remaining} left`, items != null && `${items} items`,
    attempts != null && `${attempts} attempts`].filter(Boolean).join(' · ')

function take(message) {
  if (message.now_unix_ms) offset = Math.max(offset, message.now_unix_ms - performance.now())
  showOnPhone(message)
  const at = message.now_unix_ms ?? message.due_unix_ms
  if (!at) return
  epoch ??= at
  const lane = LANES[message.alias] ? message.alias : 'scope'
  if (message.alias === 'hud') takeHUD(message)
  if (message.event === 'progress') return
  const dot = element('b', {className: message.event === 'snapshot' ? 'dot snapshot' : 'dot',
    title: `${message.alias} ${message.event}`})
  place(dot, at)
  strips[lane].append(dot)
  // Removes dots that left the axis long ago.
  while (strips[lane].childElementCount > MOST_DOTS) strips[lane].firstChild.remove()
  if (message.event === 'snapshot') return
  log.unshift({...message, at})
  log.length = Math.min(log.length, MOST_LINES)
  rows($('log'), log, () => {
    const line = element('tr')
    line.append(...[0, 1, 2, 3].map(() => element('td')))
    return line
  }, (line, event) => [clock.format(event.at), event.alias, event.event, details(event)]
    .forEach((text, index) => line.children[index].textContent = text))
}

// MARK: Scopes and stack

function showState(next) {
  state = next
  $('pid').textContent = `pid ${state.pid}, started ${state.starts === 1 ? 'once' : `${state.starts} times`}`
  rows($('scopes'), state.scopes, () => element('li'), (item, scope) => {
    item.textContent = scope.key + (scope.owned ? `, owns ${scope.owned}` : '')
      + (scope.handlers ? ', handles taps' : '')
    item.dataset.scope = scope.key
    item.style.setProperty('--depth', scope.depth - 1)
  })
  const {pages = [], state: phase, transition, fraction} = state.stack ?? {}
  rows($('pages'), pages.toReversed(), () => element('li'), (item, page) => item.textContent = page)
  $('transition').textContent = transition
    ? `${transition}${fraction == null ? '' : `, ${Math.round(fraction * 100)} %`}` : phase ?? 'empty'
  if (epoch) state.shows.forEach(drawShow)
}

// The scopes on a tap's path light up in turn: down, then up to the scope that took it.
lights.addEventListener('tap', ({detail: {target, took}}) => {
  const parents = Object.fromEntries(state.scopes.map(scope => [scope.key, scope.parent]))
  const up = []
  for (let scope = target; scope; scope = parents[scope]) up.push(scope)
  const down = up.toReversed()
  const path = state.taker === 'capture' ? down.slice(0, down.indexOf(took) + 1)
    : [...down.slice(0, -1), ...(took ? up.slice(0, up.indexOf(took) + 1) : up)]
  path.forEach((scope, index) => {
    const isLast = took && index === path.length - 1
    document.querySelector(`[data-scope="${scope}"]`)?.animate(
      {backgroundColor: ['transparent', isLast ? 'var(--took)' : 'var(--lit)', 'transparent']},
      {delay: index * 150, duration: isLast ? 1_600 : 500})
  })
  $('scopes').dataset.path = path.join(' ')
})

export const draw = {take, state: showState}
