import { createHash } from 'node:crypto';
import { Client, CountdowndError, Duration, ThrottleAnswer } from './index.js';

// The parts of Express that are used; so the client compiles without it.
export interface Request {
  method?: string;
  originalUrl?: string;
  ip?: string;
  body?: unknown;
  get(name: string): string | undefined;
}
export interface Response {
  statusCode: number;
  set(headers: Record<string, string>): unknown;
  status(code: number): Response;
  json(body: unknown): unknown;
  on(event: string, listener: () => void): unknown;
}
export type Next = (error?: unknown) => void;
export type Middleware = (request: Request, response: Response, next: Next) => Promise<void>;

export interface Limit {
  /** With `rate`; named limits have their own. */
  burst?: number;
  /** Such as '5/10m'. */
  rate?: string;
  /** Whose limit it is, by the address if it is not given; or keys of named limits: all or none. */
  key?: (request: Request) => string | string[];
  client?: Client;
}

/** Limits requests: 429 with `RateLimit` and `Retry-After`. */
export function throttled(limit: Limit): Middleware {
  const client = limit.client ?? new Client();
  return async (request, response, next) => {
    const [key, ...limits] = [limit.key?.(request) ?? `ip:${request.ip ?? ''}`].flat();
    const answer = await client.throttle.take(key, { limits, burst: limit.burst, rate: limit.rate })
      .catch((error: unknown) => failed(error, response, next));
    if (!answer) return;
    response.set(rateLimitHeaders(answer));
    if (answer.refused) response.status(429).json({ message: 'Too many requests.' });
    else next();
  };
}

export interface Idempotency {
  ttl?: Duration;
  /** How long a handler may take: if the program crashes, the next request runs it again after this time.
   * Without it, after `ttl`. */
  lease?: Duration;
  /** Who asks, so that nobody gets a reply of another user. All users share the keys if it is not given. */
  user?: (request: Request) => string;
  client?: Client;
}

/** Runs a handler once for each `Idempotency-Key` of a user; repetitions get its reply. 422 if the key
 * comes with another request, 409 while the first one runs. A reply of 500 or more is forgotten. */
export function idempotent(options: Idempotency = {}): Middleware {
  const client = options.client ?? new Client();
  return async (request, response, next) => {
    const name = request.get('Idempotency-Key');
    if (name === undefined) return void response.status(400).json({ message: 'Idempotency-Key is missing.' });
    // Escaped, so that no key of one user looks like a key of another.
    const owner = options.user ? `${encodeURIComponent(options.user(request))}:` : '';
    const key = `request:${owner}${name}`;
    const content = `${request.method} ${request.originalUrl}\n${JSON.stringify(request.body ?? null)}`;
    const fingerprint = createHash('sha256').update(content).digest('hex');
    const begun = await client.once.begin(key, { ttl: options.ttl ?? '24h', lease: options.lease, fingerprint })
      .catch((error: unknown) => failed(error, response, next));
    if (!begun) return;
    if (begun.reason === 'mismatch') {
      return void response.status(422).json({ message: 'This key was used for another request.' });
    }
    if (begun.refused && begun.state === 'running') {
      response.set({ 'Retry-After': '1' });
      return void response.status(409).json({ message: 'The first request is still running.' });
    }
    if (!begun.accepted) {
      const first = JSON.parse(String(begun.result)) as { status: number; body: unknown };
      return void response.status(first.status).json(first.body);
    }
    const { generation } = begun;
    const send = response.json.bind(response);
    let isOver = false;
    const cancel = (): void => {
      if (!isOver) client.once.cancel(key, { generation }).catch(() => {});
      isOver = true;
    };
    response.json = (body: unknown) => {
      if (response.statusCode >= 500) {
        cancel();
        return send(body);
      }
      isOver = true;
      const result = JSON.stringify({ status: response.statusCode, body });
      return client.once.done(key, result, { generation }).then(() => send(body), next);
    };
    response.on('close', cancel);
    next();
  };
}

/** Makes a function whose calls are collected: the event `fired` of 'debounce:KEY' has the last
 * arguments as its payload, once no call came for `quiet`. */
export function debounced(
  key: string, options: { quiet: Duration; maxWait?: Duration; client?: Client },
): (...words: unknown[]) => Promise<void> {
  const client = options.client ?? new Client();
  return async (...words) => {
    await client.debounce.call(key, options.quiet, { maxWait: options.maxWait, payload: JSON.stringify(words) });
  };
}

export function rateLimitHeaders(answer: ThrottleAnswer): Record<string, string> {
  const isNamed = 'views' in answer.raw;
  const limits = answer.views.map((one) => ({ ...one, name: isNamed ? one.key.split(':')[0] : 'default' }));
  const headers: Record<string, string> = {
    'RateLimit-Policy':
      limits.map((one) => `"${one.name}";q=${one.limit};w=${seconds(one.ratePeriod)}`).join(', '),
    'RateLimit': limits.map((one) => `"${one.name}";r=${one.remaining};t=${seconds(one.resetAfter)}`).join(', '),
  };
  if (answer.refused) headers['Retry-After'] = String(seconds(answer.retryAfter));
  return headers;
}

function seconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}

function failed(error: unknown, response: Response, next: Next): null {
  if (!(error instanceof CountdowndError)) next(error);
  else response.status(503).json({ message: 'Try again later.', code: error.code });
  return null;
}
