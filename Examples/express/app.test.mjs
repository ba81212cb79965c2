import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually, startCountdownd } from 'countdownd/testing';
import { make } from './app.mjs';

const daemon = await startCountdownd();
const stop = new AbortController();
const seen = [];
const app = make(daemon.client, { reindex: (name) => seen.push(name), signal: stop.signal });
const server = await new Promise((resolve) => {
  const its = app.listen(0, '127.0.0.1', () => resolve(its));
});
after(async () => {
  stop.abort();
  server.close();
  server.closeAllConnections();
  await daemon.close();
});
const { port } = server.address();
const get = (path) => fetch(`http://127.0.0.1:${port}${path}`);
const post = (path, body, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, {
  method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers },
});

test('searches are limited', async () => {
  for (let left = 9; left >= 0; left -= 1) {
    assert.equal((await get('/search')).headers.get('RateLimit'), `"default";r=${left};t=${60 - 6 * left}`);
  }
  const refused = await get('/search');
  assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [429, '6']);
  await daemon.advance('6s');
  assert.equal((await get('/search')).status, 200);
});

test('an order is placed once', async () => {
  const order = (item, key = 'a') => post('/orders', { item }, { 'Idempotency-Key': key });
  for (let count = 0; count < 2; count += 1) {
    const reply = await order('tea');
    assert.deepEqual([reply.status, await reply.json()], [201, { id: 1, item: 'tea' }]);
  }
  assert.equal((await order('coffee')).status, 422);
  await daemon.client.once.begin('request:%2Forders::b', { ttl: '24h' });
  assert.equal((await order('tea', 'b')).status, 409);
  assert.equal((await post('/orders', { item: 'tea' })).status, 400);
});

test('a document is reindexed when nobody saves it', async () => {
  await eventually(async () => Number(await daemon.client.command('PUBSUB', 'NUMPAT')) === 1);
  for (let count = 0; count < 3; count += 1) {
    assert.equal((await post('/documents/a', {})).status, 202);
    await daemon.advance('1.9s');
  }
  assert.deepEqual(seen, []);
  await daemon.advance('100ms');
  await post('/documents/b', {});
  await daemon.advance('2s');
  await eventually(() => seen.length === 2);
  assert.deepEqual(seen, ['a', 'b']);
});
