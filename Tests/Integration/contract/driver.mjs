// The driver of the Node client; contract_tools.py has what a driver is.
import { createInterface } from 'node:readline';

const { Client, Closed, Down, Unsure } = await import(process.env.COUNTDOWND_CLIENT);

let client;
const cancels = new Map();
const watches = new Map();

const say = (id, fields = {}) => console.log(JSON.stringify({ id, ...fields }));

function failure(error) {
  const is = [error.code];
  if (error instanceof Unsure || error.mayHaveRun) is.push('unsure');
  if (error instanceof Down) is.push('down');
  if (error instanceof Closed) is.push('closed');
  if (error instanceof TypeError) is.push('argument');
  if (error.name === 'AbortError') is.push('cancelled');
  if (error.name === 'TimeoutError') is.push('timeout');
  return { is, text: String(error) };
}

async function call(its) {
  const key = its.key ?? 'k';
  const controller = new AbortController();
  cancels.set(its.id, controller);
  if (its.is_cancelled) controller.abort();
  const signal = its.within_ms ? AbortSignal.timeout(its.within_ms) : controller.signal;
  const commands = client.aborting(signal);
  switch (its.call) {
    case 'start': return (await commands.countdown.start(key, { count: 60, token: its.token })).decision;
    case 'done': return (await commands.once.done(key, 'r', { generation: 1 })).decision;
    case 'set': return (await commands.timer.set(key, 1000)).key;
    case 'ping': return commands.ping();
    case 'wrong': return commands.countdown.start(key, { count: 'many' });
    case 'missing': return commands.countdown.start(undefined);
    case 'raw': return client.command(...its.words);
  }
}

async function follow(its) {
  const events = client.watch(its.patterns, { since: its.since, snapshots: its.snapshots });
  const state = { events, left: its.count ?? Infinity, wake() {} };
  watches.set(its.id, state);
  try {
    for (;;) {
      while (state.left === 0) await new Promise((resolve) => { state.wake = resolve; });
      state.left -= 1;
      const { value, done } = await events.next();
      if (done) break;
      say(its.id, { name: value.name, key: value.key, seq: value.seq, cursor: value.cursor });
    }
    say(its.id, { end: true });
  } catch (error) {
    say(its.id, { ...failure(error), end: true });
  }
}

function more(state, count) {
  state.left += count;
  state.wake();
}

async function handle(its) {
  switch (its.do) {
    case 'open':
      client = new Client({ timeout: its.timeout_ms });
      return say(its.id, { timeout_ms: client.timeout });
    case 'call':
      return void call(its).then((value) => say(its.id, { value }), (error) => say(its.id, failure(error)));
    case 'cancel': cancels.get(its.of).abort(); break;
    case 'watch': return void follow(its);
    case 'more': more(watches.get(its.of), its.count); break;
    case 'end': watches.get(its.of).events.return(); break;
    case 'close': await client.close(); break;
  }
  say(its.id);
}

for await (const line of createInterface({ input: process.stdin })) await handle(JSON.parse(line));
// It ends by itself, so nothing of it goes on.
await client?.close();
for (const state of watches.values()) more(state, 1);
