// The client against a real daemon on virtual time.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as createDaemon } from 'node:net';
import { after, test } from 'node:test';
import { Client, Down, Invalid, NotFound, Stale } from '../dist/index.js';
import { idempotent, throttled } from '../dist/express.js';
import { network } from '../dist/middleware.js';
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

test('replies are text, or bytes that are none, in one piece or several', async () => {
  const texts = ['', 'a', 'a\r\nb', 'é', '\ufffd', 'x'.repeat(24), 'x'.repeat(25), 'é'.repeat(20), '\u4f60'.repeat(80_000)];
  const others = [Buffer.from([255]), Buffer.concat([Buffer.from('x'.repeat(30)), Buffer.from([0xc3])])];
  const words = [...texts, ...others];
  assert.deepEqual(await Promise.all(words.map((word) => client.command('ECHO', word))), words);
  // Bytes that are text come back as text.
  assert.equal(await client.command(Buffer.from('ECHO'), Buffer.from('é')), 'é');
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

test('JSON of views has text, and base64 for what is none', async () => {
  const first = await client.once.begin('json', { ttl: '1h' });
  await client.once.done('json', 'tea: 2 €', { generation: first.generation });
  for (const view of [await client.once.get('json'), await client.once.begin('json', { ttl: '1h' })]) {
    const json = JSON.parse(JSON.stringify(view));
    assert.deepEqual([json.result, json.state, json.raw, typeof json.now], ['tea: 2 €', 'done', undefined, 'string']);
  }
  await client.timer.set('json', '1h', { payload: Buffer.from([255, 0]) });
  const json = JSON.parse(JSON.stringify({ timers: [await client.timer.get('json')] })).timers[0];
  assert.deepEqual([json.payload, json.payloadBase64], [undefined, '/wA=']);
  const taken = await client.throttle.take('json', { burst: 1, rate: '1/1s' });
  const { views, decision } = JSON.parse(JSON.stringify(taken));
  assert.deepEqual([decision, views.length, views[0].raw], ['accepted', 1, undefined]);
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

test('many calls whose connection is lost share the next one', async () => {
  const sockets = [];
  const server = createDaemon((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      for (const command of String(data).match(/HELLO|PING/g)) {
        if (command === 'PING' && sockets.length === 1) return void socket.destroy();
        socket.write(command === 'HELLO' ? '%0\r\n' : '+PONG\r\n');
      }
    });
  });
  const path = `${daemon.folder}/lossy`;
  await new Promise((resolve) => { server.listen(path, resolve); });
  const lossy = new Client({ path });
  try {
    const replies = await Promise.all(Array.from({ length: 3000 }, () => lossy.ping()));
    assert.ok(replies.every((reply) => reply === 'PONG'));
    assert.equal(sockets.length, 2);
  } finally {
    await lossy.close();
    server.close();
  }
});

// Tests/Integration/test_middleware.py has the contract of the middleware; here is what only Node has.

/** Asks an app of Node's own server that has one middleware and a handler. */
async function ask(middleware, handler, headers = {}, before = () => {}) {
  const server = createServer((request, response) => {
    before(response);
    Object.assign(request, { get: (name) => request.headers[name.toLowerCase()], originalUrl: request.url });
    middleware(request, response, (error) => (error ? response.writeHead(500).end(error.message) : handler(response)));
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  try {
    return await fetch(`http://127.0.0.1:${server.address().port}/`, { method: 'POST', headers });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

test('middleware takes named limits, all or none', async () => {
  const both = throttled({ named: { address: (request) => request.get('X-Address'), all: null }, client });
  const take = (address) => ask(both, (response) => response.end(), { 'X-Address': address });
  assert.equal((await take('a')).headers.get('RateLimit-Policy'), '"address";q=2;w=60, "all";q=9;w=3600');
  await take('a');
  const refused = await take('a');
  assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [429, '30']);
  const nobody = await take('');
  assert.equal(nobody.status, 500);
  assert.match(await nobody.text(), /the key function of address gave ""/);
});

test('middleware keeps what is around a handler, and nothing that comes after its end', async () => {
  const once = idempotent({ name: 'orders', client });
  let count = 0;
  const handler = (response) => {
    count += 1;
    response.appendHeader('Set-Cookie', 'order=1');
    response.writeHead(201, { 'X-Order': '1' });
    response.end('tea');
    response.setHeader('X-Late', '1');
    response.end('coffee');
  };
  for (const session of ['a', 'b']) {
    const reply = await ask(once, handler, { 'Idempotency-Key': 'k' }, (response) => response.setHeader('Set-Cookie', session));
    assert.deepEqual([reply.status, await reply.text(), reply.headers.get('X-Order'), reply.headers.get('X-Late')], [201, 'tea', '1', null]);
    assert.deepEqual(reply.headers.getSetCookie(), [session, 'order=1']);
  }
  assert.equal(count, 1);
});

test('middleware tells errors of the daemon to a hook', async () => {
  const away = new Client({ path: '/nowhere' });
  const seen = [];
  const onError = (error) => seen.push(error);
  const status = async (middleware) => (await ask(middleware, (response) => response.end(), { 'Idempotency-Key': 'k' })).status;
  const limit = { name: 'a', burst: 1, rate: '1/1s', key: () => 'k', client: away, onError };
  assert.equal(await status(throttled(limit)), 200);
  assert.equal(await status(throttled({ ...limit, fail: 'closed' })), 503);
  assert.equal(await status(idempotent({ name: 'a', client: away, onError })), 503);
  assert.equal(await status(idempotent({ name: 'a', client: away, onError, fail: 'open' })), 200);
  assert.ok(seen.length === 4 && seen.every((error) => error instanceof Down));
});

test('middleware refuses wrong options when it is made', () => {
  const one = { burst: 10, rate: '10/1m' };
  for (const [options, message] of [
    [{}, /burst and rate/], [{ ...one, burst: 0 }, /burst is/], [{ ...one, rate: '0/1s' }, /a rate/], [{ ...one, rate: 'x' }, /a rate/],
    [{ ...one, named: ['a'] }, /configuration/], [{ named: [] }, /no name/], [{ named: 'a' }, /list/], [{ ...one, cost: 11 }, /cost/],
    [{ ...one, fail: 'ajar' }, /fail/],
  ]) assert.throws(() => throttled(options), message);
  assert.throws(() => idempotent({ ttl: 'soon' }), /ttl is a time/);
  assert.throws(() => idempotent({ ttl: 1, lease: 2 }), /lease/);
});

test('limits count networks of IPv6', () => {
  for (const [address, expected] of [
    ['10.0.0.1', '10.0.0.1'], ['::ffff:10.0.0.1', '10.0.0.1'], ['::ffff:a00:1', '10.0.0.1'], ['2001:DB8::1', '2001:db8::/64'],
    ['2001:db8:0:1:2:3:4:5', '2001:db8:0:1::/64'], ['fe80::1%eth0', 'fe80::/64'], ['::1', '::/64'], ['somebody', 'somebody'],
  ]) assert.equal(network(address), expected);
});
