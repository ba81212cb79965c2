// The client against a real daemon on virtual time.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Client, Down, Invalid, NotFound, Stale } from '../dist/index.js';
import { idempotent, throttled } from '../dist/express.js';
import { eventually, startCountdownd } from '../dist/testing.js';

const config = `
policies:
  login: {ladder: [30s, 60s]}
throttles:
  address: {burst: 2, rate: 2/1m}
  all: {burst: 9, rate: 9/1h}
`;
const daemon = await startCountdownd({ config });
after(() => daemon.close());
const { client } = daemon;

test('three answers', async () => {
  const first = await client.countdown.start('+45', { policy: 'login', token: 'request-1' });
  assert.equal(first.decision, 'accepted');
  const again = await client.countdown.start('+45', { policy: 'login', token: 'request-1' });
  assert.equal(again.decision, 'repeated');
  const other = await client.countdown.start('+45', { policy: 'login' });
  assert.ok(other.refused && other.reason === 'cooldown' && other.retryAfter === 30_000);
  await daemon.advance('30s');
  assert.ok((await client.countdown.start('+45', { policy: 'login' })).accepted);
});

test('once is accepted, running or done', async () => {
  const first = await client.once.begin('order', { ttl: '1h' });
  assert.equal((await client.once.begin('order', { ttl: '1h' })).state, 'running');
  await client.once.done('order', Buffer.from([255, 0]), { generation: first.generation });
  const done = await client.once.begin('order', { ttl: '1h' });
  assert.deepEqual(done.result, Buffer.from([255, 0]));
});

test('several limits are taken, all or none', async () => {
  const first = await client.throttle.take('address:1', { limits: ['all:'], cost: 2 });
  assert.ok(first.accepted && first.refusedBy === null);
  assert.deepEqual(first.views.map((one) => [one.key, one.remaining]), [['address:1', 0], ['all:', 7]]);
  const refused = await client.throttle.take('all:', { limits: ['address:1'] });
  assert.ok(refused.refused && refused.reason === 'limit' && refused.refusedBy === 'address:1');
  // The view is that of the limit which refuses.
  assert.deepEqual([refused.key, refused.remaining, refused.retryAfter], ['address:1', 0, 30_000]);
  const alone = await client.throttle.take('name', { burst: 1, rate: '1/1s' });
  assert.deepEqual(alone.views.map((one) => one.key), ['name']);
  assert.equal(alone.refusedBy, null);
});

test('errors have classes', async () => {
  await assert.rejects(client.countdown.resend('nobody'), NotFound);
  await assert.rejects(client.countdown.start('a', { count: 0 }), Invalid);
  const { generation } = await client.countdown.start('b');
  await assert.rejects(client.countdown.pause('b', { generation: generation + 1 }), Stale);
  await assert.rejects(
    new Client({ path: '/nowhere' }).ping(), (error) => error instanceof Down && /no socket at \/nowhere/.test(error.message));
});

test('a timer takes a moment', async () => {
  const at = new Date('2026-12-01T07:00:00.250Z');
  for (const moment of [at, '2026-12-01T08:00:00.250+01:00']) {
    const timer = await client.timer.set('moment', undefined, { at: moment });
    assert.ok(timer.accepted);
    assert.equal(timer.deadline?.getTime(), at.getTime());
  }
  await assert.rejects(client.timer.set('moment', undefined, { at: '2026-12-01T08:00' }), TypeError);
  const refused = await client.timer.set('moment', '1h', { nx: true });
  assert.ok(refused.refused && refused.reason === 'exists');
});

test('owners end with the connection', async () => {
  const own = client.connected();
  const view = await own.countdown.start('upload', { owner: 'connection' });
  assert.match(view.owner, /^connection:/);
  await own.close();
  await eventually(async () => (await client.countdown.get('upload')) === null);
});

test('a watch begins with snapshots, and resumes after a restart', async () => {
  await client.countdown.start('w', { count: 60 });
  const stop = new AbortController();
  const seen = [];
  const done = (async () => {
    for await (const event of client.watch('countdown:w', { signal: stop.signal })) seen.push(event);
  })();
  await eventually(() => seen.length > 0);
  assert.equal(seen[0].name, 'snapshot');
  assert.equal(seen[0].view.state, 'counting');
  await daemon.restart('70s');
  await eventually(() => seen.some((event) => event.name === 'ready'));
  await client.countdown.start('w', { count: 60 });
  await eventually(() => seen.some((event) => event.name === 'started'));
  stop.abort();
  await done;
  const names = seen.map((event) => event.name).filter((name) => !['snapshot', 'tick'].includes(name));
  assert.deepEqual(names, ['ready', 'started']);
});

/** Runs a middleware, and returns the reply. */
async function reply(middleware, request, handler = (response) => response.json({ ok: true })) {
  const result = { headers: {}, status: 200 };
  const response = {
    statusCode: 200,
    set: (headers) => Object.assign(result.headers, headers),
    status(code) { result.status = this.statusCode = code; return this; },
    json(body) { result.body = body; return this; },
    on() {},
  };
  await middleware({ get: () => undefined, ...request }, response, (error) => {
    if (error) throw error;
    result.handled = Promise.resolve(handler(response));
  });
  await result.handled;
  return result;
}

test('middleware limits requests', async () => {
  const limit = throttled({ burst: 1, rate: '1/10s', client });
  assert.equal((await reply(limit, { ip: '1' })).status, 200);
  const refused = await reply(limit, { ip: '1' });
  assert.equal(refused.status, 429);
  assert.equal(refused.headers['Retry-After'], '10');
  assert.equal(refused.headers.RateLimit, '"default";r=0;t=10');
  const both = throttled({ key: ({ ip }) => [`address:${ip}`, 'all:'], client });
  const { headers } = await reply(both, { ip: '2' });
  assert.equal(headers['RateLimit-Policy'], '"address";q=2;w=60, "all";q=9;w=3600');
});

test('middleware runs a request once', async () => {
  let count = 0;
  const handler = (response) => response.json({ id: ++count });
  const once = idempotent({ client });
  const request = { get: () => 'key-1', body: { item: 'tea' } };
  assert.deepEqual((await reply(once, request, handler)).body, { id: 1 });
  assert.deepEqual((await reply(once, request, handler)).body, { id: 1 });
  assert.equal((await reply(once, { ...request, body: { item: 'coffee' } }, handler)).status, 422);
  assert.equal((await reply(once, { ...request, originalUrl: '/other' }, handler)).status, 422);
  // The same key of two users, and one of a user whose name looks like a key of another.
  const own = idempotent({ user: ({ name }) => name, client });
  const asked = async (name, key) => (await reply(own, { ...request, name, get: () => key }, handler)).body.id;
  assert.deepEqual(
    [await asked('ann', 'c:d'), await asked('bob', 'c:d'), await asked('ann:c', 'd'), await asked('ann', 'c:d')],
    [2, 3, 4, 2]);
  await client.once.begin('request:key-2', { ttl: '1h' });
  assert.equal((await reply(once, { get: () => 'key-2', body: {} }, handler)).status, 409);
});
