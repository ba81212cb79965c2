// The functions that all modules need: elements, buttons' requests, and the app's state.
export const $ = id => document.getElementById(id)
export const element = (name, properties) => Object.assign(document.createElement(name), properties)

const REASONS = {
  transitioning: 'the page before is still moving', root: 'there is no page below',
  presented: 'the page was presented', disabled: 'the page forbids it',
  'outside-edge': 'it did not begin at the edge', direction: 'it went the other way',
  cooldown: 'wait for the countdown', window: 'too many codes were sent',
  expired: 'the code has expired', locked: 'too many attempts', passed: 'the code was used',
  loading: 'it is loading already', 'not-failed': 'nothing has failed',
}

// Shows a text on the phone; screen readers speak it, too.
export function say(text) {
  $('said').textContent = ''
  $('said').textContent = text
}

// Sends the action of a button to the app and returns the answer. Shows why it was refused.
export async function act(action, input = {}) {
  try {
    const answer = await fetch(`/do/${action}`, {
      method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(input),
    })
    const value = answer.ok ? await answer.json() : {say: 'The daemon cannot do this now.'}
    if (value?.say) say(value.say)
    if (value?.sms) say(`Message: your code is ${value.sms}`)
    if (value?.accepted === false && value.reason !== 'not-transitioning')
      say(`Refused: ${REASONS[value.reason] ?? value.reason}.`)
    refresh()
    return value
  } catch {
    say('You are offline.')
  }
}

// Asks the app for its state soon; several calls make one request.
let wanted, running, take
export function refresh() {
  wanted = true
  running ??= ask().finally(() => running = undefined)
}
export function whenKnown(body) { take = body }

async function ask() {
  while (wanted) {
    wanted = false
    await new Promise(done => setTimeout(done, 30))
    try {
      const answer = await fetch('/state', {cache: 'no-store'})
      if (!answer.ok) throw new Error()
      take?.(await answer.json())
    } catch {
      await new Promise(done => setTimeout(done, 300))
      wanted = true
    }
  }
}

// Gives the parent one child for each value, keeping the children that it has.
export function rows(parent, values, make, fill) {
  while (parent.children.length > values.length) parent.lastChild.remove()
  while (parent.children.length < values.length) parent.append(make())
  values.forEach((value, index) => fill(parent.children[index], value))
}
