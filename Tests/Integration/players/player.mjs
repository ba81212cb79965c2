// Plays commands through the TypeScript client; see test_client_flows.py.
import { createInterface } from 'node:readline';
import { Client, CountdowndError } from 'countdownd';

const client = new Client({ path: process.argv[2], timeout: 60_000 });
const named = new Map();
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const argument = (value) =>
  Array.isArray(value) ? value.map(argument) : typeof value === 'object' ? value.ms : value;
const raw = (value) => {
  if (Buffer.isBuffer(value)) return value.toString();
  if (Array.isArray(value)) return value.map(raw);
  return value;
};

function plain(result) {
  if (result?.raw) return Object.fromEntries(Object.entries(result.raw).map(([name, value]) => [name, raw(value)]));
  return typeof result === 'boolean' ? Number(result) : result ?? null;
}

async function follow() {
  for await (const event of client.watch('*')) say({ event: [`${event.kind}:${event.key}`, event.raw] });
}
follow();
// Subscribed as soon as an event of this timer comes.
for (let isReady = false; !isReady; ) {
  isReady = Number((await client.command('PUBSUB', 'NUMPAT'))) > 0;
}
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { connection, owner, method, positions, options } = JSON.parse(line);
  if (connection && owner === 'quit') {
    await named.get(connection).command('QUIT');
    await named.get(connection).close();
    named.delete(connection);
    say({ reply: 'OK' });
    continue;
  }
  if (connection && !named.has(connection)) named.set(connection, client.connected());
  const one = (named.get(connection) ?? client)[owner];
  const given = Object.fromEntries(Object.entries(options).map(([name, value]) => [camel(name), argument(value)]));
  try {
    const last = Object.keys(given).length > 0 ? [given] : [];
    say({ reply: plain(await one[method](...positions.map(argument), ...last)) });
  } catch (error) {
    if (!(error instanceof CountdowndError)) throw error;
    say({ error: `${error.code} ${error.message}` });
  }
}
process.exit(0);
