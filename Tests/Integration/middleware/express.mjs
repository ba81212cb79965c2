// The app of Express; middleware_tools.py has the routes.
import { appendFileSync, existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import express from 'express';
import { idempotent, throttled } from 'countdownd/express';

const runs = process.env.RUNS;
const app = express();
app.use(express.json());

const answers = {
  json: (response) => response.json({ id: 1 }),
  text: (response) => response.type('text/plain').send('tea for two: 2 €'),
  bytes: (response) => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    // In parts, as a file is sent.
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': '256' });
    Readable.from([bytes.subarray(0, 100), bytes.subarray(100)]).pipe(response);
  },
  created: (response) => response.status(201).location('/orders/1').json({ id: 1 }),
  redirect: (response) => response.redirect(303, '/orders/1'),
  empty: (response) => response.sendStatus(204),
  cookie: (response) => response.cookie('a', '1', { httpOnly: true }).cookie('b', '2', { maxAge: 60_000 }).json({ id: 1 }),
  missing: (response) => response.status(404).json({ message: 'no such tea' }),
  stream: (response) => Readable.from(['a', 'b']).pipe(response),
  huge: (response, { size }) => response.type('text/plain').send('x'.repeat(size)),
  many: (response) => response.status(429).set('Retry-After', '7').json({}),
  error: (response) => response.status(500).json({}),
  raise: () => { throw new Error('as asked'); },
  die: () => process.kill(process.pid, 'SIGKILL'),
};

const handler = (name) => (request, response, next) => {
  const key = request.get('Idempotency-Key') || '-';
  appendFileSync(runs, `${name} ${key}\n`);
  const end = Date.now() + 1000 * (request.body.wait ?? 0);
  const answer = () => {
    if (Date.now() < end && !existsSync(`${runs}.${key}`)) return void setTimeout(answer, 10);
    try {
      answers[request.body.answer](response, request.body);
    } catch (error) {
      next(error);
    }
  };
  answer();
};

const user = (request) => request.get('X-User') ?? '';
const once = idempotent({ lease: '2s', user });
app.post('/orders', once, handler('orders'));
app.post('/payments', once, handler('payments'));
app.post('/brief', idempotent({ ttl: '3s', lease: '2s', user }), handler('brief'));

const ok = (_, response) => response.json({});
const address = (request) => request.get('X-Client');
const byAddress = { burst: 10, rate: '10/1h', address };
const search = throttled({ ...byAddress, name: 'search', skip: (request) => request.path === '/health' });
app.get('/search', search, ok);
app.get('/health', search, ok);
app.post('/login', throttled({ ...byAddress, fail: 'closed' }), ok);
app.get('/costly', throttled({ ...byAddress, cost: () => 5 }), ok);
app.get('/open', throttled({ burst: 1, rate: '1/1h', address, fail: 'open' }), ok);
app.get('/unknown', throttled({ named: ['nowhere'], address, fail: 'open' }), ok);
app.get('/nokey', throttled({ burst: 1, rate: '1/1h', key: () => '' }), ok);

const server = app.listen(0, '127.0.0.1', () => console.log('port', server.address().port));
