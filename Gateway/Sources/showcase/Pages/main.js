// Follows the daemon through the gateway, and passes events to the phone and to the view beside it.
// All text goes through textContent.
import {draw} from './daemon.js'
import {show} from './phone.js'
import {$, act, refresh, whenKnown} from './page.js'

const gateway = $('gateway').href
const [{follow}] = await Promise.all(['stream', 'button', 'hud'].map(
  name => import(`${gateway}components/countdown-${name}.js`)))

// How long the network is down, in milliseconds: requests of the page fail meanwhile.
const AWAY = 3_000
const network = fetch
let awayUntil = 0
window.fetch = (...request) => performance.now() < awayUntil
  ? Promise.reject(new TypeError('no connection')) : network(...request)

let outage, missed
const say = text => { if ($('status').textContent !== text) $('status').textContent = text }

// Handles a message of the stream itself.
function connection(message) {
  const now = performance.now()
  if (message.event === 'offline' && outage?.cause !== 'connection') {
    outage = {cause: 'connection', from: now}
    say('Your connection is lost. Countdowns continue.')
  } else if (message.event === 'outage') {
    outage = {cause: 'daemon', from: now}
    say('The daemon was killed. Countdowns continue; it is being started again.')
  } else if (['hello', 'recovered'].includes(message.event)) {
    const seconds = outage && ((now - outage.from) / 1_000).toFixed(1)
    if (!outage) say('Live')
    else if (message.event === 'hello') say(`Connected again after ${seconds} s. Missed events followed.`)
    else say(`The daemon is back after ${seconds} s. What it has stored continues. `
      + 'The phone has opened its scopes again.')
    outage = undefined
  }
}

// All aliases of the ticket share one stream.
const ALIASES = ['login', 'session', 'hud', 'nav', 'list', 'order', 'phone', 'taps', 'table', 'row-1',
  'row-2', 'row-3']
let stream
for (const alias of ALIASES) {
  follow({gateway, ticket: new URL('/ticket', location).href}, alias, (message, from) => {
    stream = from
    // All followers receive the messages of the stream itself; the first one handles them.
    if (message.alias) draw.take(message)
    else if (alias === ALIASES[0]) connection(message)
    refresh()
  })
}

whenKnown(state => {
  show(state)
  draw.state(state)
})

$('drop').onclick = () => {
  awayUntil = performance.now() + AWAY
  stream?.again()
}
$('kill').onclick = () => act('kill')
