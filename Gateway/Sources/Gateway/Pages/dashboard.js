// Reads /dashboard/data every two seconds. All text goes through textContent.

const PERIOD = 2_000
const $ = id => document.getElementById(id)
const number = new Intl.NumberFormat('en')

// Returns {name: [{labels, value}]} from the Prometheus text.
function parse(text) {
  const families = {}
  for (const line of text.split('\n')) {
    const match = /^countdownd_(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)
    if (!match) continue
    const labels = Object.fromEntries(
      [...(match[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(one => [one[1], one[2]]))
    ;(families[match[1]] ??= []).push({labels, value: Number(match[3])})
  }
  return families
}

// Gives the parent one child for each value, keeping the children that it has.
function rows(parent, values, make, fill) {
  while (parent.children.length > values.length) parent.lastChild.remove()
  while (parent.children.length < values.length) parent.append(make())
  values.forEach((value, index) => fill(parent.children[index], value))
}

const element = name => document.createElement(name)

function list(parent, pairs) {
  rows(parent, pairs.flat(), () => element(parent.children.length % 2 ? 'dd' : 'dt'),
    (child, text) => child.textContent = text)
}

function bars(parent, values) {
  const most = Math.max(1, ...values.map(([, value]) => value))
  const cells = values.flatMap(([name, value]) => [name, {value, most}, number.format(value)])
  rows(parent, cells, () => element(parent.children.length % 3 === 1 ? 'meter' : 'span'),
    (child, cell) => {
      if (typeof cell !== 'object') return child.textContent = cell
      child.max = cell.most
      child.value = cell.value
    })
}

const one = (metrics, name) => metrics[name]?.[0]?.value ?? 0
const fields = text => Object.fromEntries(
  text.split('\r\n').filter(line => line.includes(':')).map(line => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1)]
  }))

const DEADLINES = [[1e3, '1 s'], [1e4, '10 s'], [6e4, '1 min'], [6e5, '10 min'], [36e5, '1 h'],
  [864e5, '1 day'], [Infinity, 'later']]

let before

function rates(metrics) {
  const now = performance.now()
  const counts = Object.fromEntries(
    (metrics.commands_total ?? []).map(one => [one.labels.command, one.value]))
  const seconds = before ? (now - before.now) / 1_000 : 1
  const found = before ? Object.entries(counts).map(([name, count]) =>
    [name.replace('|', ' '), Math.max(count - (before.counts[name] ?? 0), 0) / seconds]) : []
  before = {now, counts}
  return found.filter(([, rate]) => rate > 0).sort((a, b) => b[1] - a[1]).slice(0, 10)
    .map(([name, rate]) => [name, Math.round(rate * 10) / 10])
}

function show(data) {
  const metrics = parse(data.metrics)
  const server = fields(data.server)
  const state = fields(data.persistence)
  const isReadOnly = one(metrics, 'read_only') === 1
  list($('now'), [
    ['Version', metrics.build_info?.[0]?.labels.version ?? ''],
    ['Up', `${number.format(server.uptime_in_seconds ?? 0)} s`],
    ['Connections', number.format(one(metrics, 'connections'))],
    ['Events', number.format(one(metrics, 'events_total'))],
    ['Errors', number.format((metrics.errors_total ?? []).reduce((sum, e) => sum + e.value, 0))],
    ['Refused connections', number.format(one(metrics, 'rejected_connections_total'))],
    ['Slow readers closed', number.format(one(metrics, 'output_limit_disconnections_total'))],
  ])
  bars($('entities'), (metrics.entities ?? []).map(e => [e.labels.kind, e.value]))
  bars($('commands'), rates(metrics))
  let from = -Infinity
  bars($('deadlines'), DEADLINES.map(([end, name]) => {
    const count = data.left_ms.filter(left => left > from && left <= end).length
    from = end
    return [end === Infinity ? name : `≤ ${name}`, count]
  }))
  let counted = 0
  bars($('lateness'), (metrics.timer_lateness_seconds_bucket ?? []).map(bucket => {
    const count = bucket.value - counted
    counted = bucket.value
    const le = bucket.labels.le
    const name = le === '+Inf' ? 'later' : le < 1 ? `≤ ${le * 1e3} ms` : `≤ ${le} s`
    return [name, count]
  }).filter(([, count]) => count > 0))
  list($('persistence'), [
    ['Durability', state.durability ?? ''], ['Read-only', isReadOnly ? state.last_error : 'no'],
    ['Loading', state.loading === '1' ? 'yes' : 'no'],
    ['State', `${number.format(one(metrics, 'state_bytes'))} bytes`],
    ['Events kept', number.format(state.events_kept ?? 0)],
    ['Folding', state.fold_error || 'works'],
  ])
  rows($('events'), data.events.toReversed(), () => {
    const row = element('tr')
    row.append(element('td'), element('td'), element('td'))
    return row
  }, (row, event) => {
    [event.at_unix_ms ? new Date(event.at_unix_ms).toLocaleTimeString() : '', event.kind, event.event].forEach((text, i) => row.children[i].textContent = text)
  })
  say(isReadOnly ? 'Changes are refused: the state cannot be stored' : 'Live', isReadOnly)
}

function say(text, isBad) {
  if ($('status').textContent !== text) $('status').textContent = text
  $('status').className = isBad ? 'bad' : ''
}

async function refresh() {
  try {
    const answer = await fetch('/dashboard/data', {signal: AbortSignal.timeout(5_000)})
    if (!answer.ok) throw new Error((await answer.json()).detail)
    show(await answer.json())
  } catch (error) {
    say(`Not live: ${error.message}`, true)
  }
  setTimeout(refresh, PERIOD)
}
refresh()
