import { createHash } from 'node:crypto';
import { Ended, Recording, Stored, mostStored, tooLarge } from './answers.js';
import { Answer, Client, Duration, Invalid, LimitReached, OnceView, ThrottleAnswer } from './index.js';
import { Middleware, Next, Request, Response, checkTime, isAway, keyOf, network, refuse, seconds } from './middleware.js';

export { Middleware, Next, Request } from './middleware.js';

// docs/reference/middleware.md says what it does, in any framework. The functions of the options are
// methods, so that they may name the type of a request that a version of Express has.

/** What limits and idempotent handlers have in common. */
export interface Common {
  /** That of the handler: those with the same name share limits, or keys. If it is not given, the path
   * of the route, and for limits its method. Give one below a router whose path has parameters. */
  name?: string;
  /** What happens to requests while the daemon cannot be asked: they run, or get 503. */
  fail?: 'open' | 'closed';
  /** Gets each error of the daemon. */
  onError?(error: unknown, request: Request): void;
  client?: Client;
}

/** A rate limit of requests: `burst` and `rate`, or `named`. `fail` is 'open' if it is not given; take
 * 'closed' where a limit protects, as at a login. */
export interface Limit extends Common {
  /** How many may come at once. */
  burst?: number;
  /** How many may come in the long run, such as '5/10m'. */
  rate?: string;
  /** Names of limits of the configuration instead: a request takes from all or none. As an object, with
   * a key function for each, or null if it is one limit for all. */
  named?: readonly string[] | { readonly [name: string]: ((request: any) => string) | null };
  /** Whose limit it is; the address's if it is not given. */
  key?(request: Request): string;
  /** The address of the client; `request.ip` if it is not given. */
  address?(request: Request): string | undefined;
  /** How much a request uses, 1 or more; 1 if it is not given. */
  cost?: number | ((request: any) => number);
  /** Which requests use nothing, and are not refused. */
  skip?(request: Request): boolean;
}

/** Limits requests: 429 with `RateLimit` and `Retry-After`. TypeError if the options are wrong. */
export function throttled(limit: Limit): Middleware {
  checkLimit(limit);
  const client = limit.client ?? new Client();
  const fail = failOf(limit, 'open');
  const take = async (request: Request, response: Response, next: Next): Promise<void> => {
    if (limit.skip?.(request)) return next();
    let answer: ThrottleAnswer;
    try {
      const [key, ...limits] = keysOf(limit, request);
      const cost = typeof limit.cost === 'function' ? limit.cost(request) : limit.cost;
      answer = await client.throttle.take(key!, { limits, burst: limit.burst, rate: limit.rate, cost });
    } catch (error) {
      limit.onError?.(error, request);
      return failed(fail, error, request, response, next);
    }
    for (const [name, value] of Object.entries(rateLimitHeaders(answer))) response.setHeader(name, value);
    if (answer.refused) refuse(response, 429, 'Too many requests.');
    else next();
  };
  return (request, response, next) => void take(request, response, next).catch(next);
}

/** Whose answers are kept, and how long. `fail` is 'closed' if it is not given: with 'open', a handler
 * runs each time while the daemon cannot be asked. */
export interface Idempotency extends Common {
  /** How long repetitions are recognized; 24 h if it is not given. */
  ttl?: Duration;
  /** After what time the next request may run the handler again if the program died in it; 10 s if it
   * is not given. It is extended while the handler runs. */
  lease?: Duration;
  /** Who asks, so that nobody gets an answer of another user. All users share the keys if it is not
   * given. */
  user?(request: Request): string;
  /** Whether a request without an `Idempotency-Key` gets 400, instead of running each time. */
  required?: boolean;
}

/** Runs a handler once for each `Idempotency-Key` of a user; repetitions get its answer. 422 if the key
 * comes with another request, 409 while the first one runs. It comes after what reads the body, such as
 * `express.json()`. An answer of 429, or of 500 or more, is not stored. One that is written in parts, or
 * too large, is an error at once: 500, and a line in the log. TypeError if the options are wrong. */
export function idempotent(options: Idempotency = {}): Middleware {
  const { ttl = '24h', lease = '10s', client = new Client() } = options;
  checkTime('ttl', ttl);
  checkTime('lease', lease);
  if (typeof ttl === 'number' && typeof lease === 'number' && lease > ttl) throw new TypeError('lease is at most ttl');
  const fail = failOf(options, 'closed');
  const answer = async (request: Request, response: Response, next: Next): Promise<void> => {
    const header = request.get('Idempotency-Key');
    if (header === undefined) {
      return options.required ? refuse(response, 400, 'Idempotency-Key is missing.') : next();
    }
    if (header === '' || Buffer.from(header).length > 255) {
      return refuse(response, 400, 'Idempotency-Key has 1 to 255 bytes.');
    }
    const name = options.name ?? routeOf(request);
    const key = keyOf('request', name, options.user?.(request) ?? '', header);
    let begun: Answer<OnceView>;
    try {
      begun = await client.once.begin(key, { ttl, lease, fingerprint: fingerprint(request) });
    } catch (error) {
      options.onError?.(error, request);
      return failed(fail, error, request, response, next);
    }
    if (begun.accepted) {
      const note = (error: unknown, what: string): void => {
        options.onError?.(error, request);
        console.error(`countdownd: ${key} ${what}: ${String(error)}`);
      };
      return new Run(client, begun, note).answer(name, response, next);
    }
    if (begun.reason === 'mismatch') return refuse(response, 422, 'This key was used for another request.');
    if (begun.state === 'done' && begun.result) {
      response.setHeader('Idempotency-Replayed', 'true');
      return Stored.read(begun.result).send(response);
    }
    response.setHeader('Retry-After', String(seconds(begun.lease ?? begun.remainingTime)));
    refuse(response, 409, 'The first request is still running.');
  };
  return (request, response, next) => void answer(request, response, next).catch(next);
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

// Limits

function checkLimit({ burst, rate, named, cost }: Limit): void {
  if (typeof named === 'string') throw new TypeError(`named is a list of names, such as ['${String(named)}']`);
  if (named && (burst !== undefined || rate !== undefined)) {
    throw new TypeError('a named limit has its burst and rate in the configuration');
  }
  if (named && Object.keys(named).length === 0) throw new TypeError('named has no name');
  if (!named && (burst === undefined || rate === undefined)) {
    throw new TypeError("a limit has burst and rate, such as 10 and '10/1m', or is named");
  }
  if (burst !== undefined && !(Number.isInteger(burst) && burst >= 1)) throw new TypeError(`burst is at least 1, not ${burst}`);
  if (rate !== undefined && !/^0*[1-9]\d*\/\d[a-z0-9.]*$/.test(rate)) {
    throw new TypeError(`a rate is a count and a time, such as '5/10m', not '${rate}'`);
  }
  if (typeof cost === 'number' && !(cost >= 1 && cost <= (burst ?? cost))) throw new TypeError(`cost is 1 to burst, not ${cost}`);
}

function keysOf(limit: Limit, request: Request): string[] {
  const { named } = limit;
  if (!named) return [keyOf(limit.name ?? `${methodOf(request)} ${routeOf(request)}`, ownKey(limit, request))];
  if (isList(named)) return named.map((name) => `${name}:${ownKey(limit, request)}`);
  return Object.entries(named).map(
    ([name, key]) => `${name}:${key === null ? '' : given(key(request), `the key function of ${name}`)}`);
}

function isList(named: NonNullable<Limit['named']>): named is readonly string[] {
  return Array.isArray(named);
}

function ownKey(limit: Limit, request: Request): string {
  if (limit.key) return given(limit.key(request), `the key function ${limit.key.name}`);
  const address = limit.address ? limit.address(request) : request.ip;
  return given(address && network(address), 'the address of the client');
}

/** Returns the text of a key, which is not empty. */
function given(key: string | undefined, what: string): string {
  if (key === undefined || key === null || key === '') {
    throw new Invalid('ERR', `a limit needs a key, and ${what} gave ${JSON.stringify(key) ?? 'undefined'}`);
  }
  return String(key);
}

/** Returns the path of the route, in whatever case the client writes it. */
function routeOf(request: Request): string {
  return `${String(request.baseUrl ?? '').toLowerCase()}${String(request.route?.path ?? '')}`;
}

/** Returns the method of the route: a route of all methods has one limit. */
function methodOf(request: Request): string {
  if (!request.route || request.route.methods?._all) return 'ALL';
  return request.method === 'HEAD' ? 'GET' : String(request.method);
}

// Idempotency

/** Tells a request from others: its method, its path with the query, and its body. */
function fingerprint(request: Request): string {
  const { headers, body } = request;
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  if (hasBody && !request.readableEnded) {
    throw new TypeError(`nobody has read the body (${headers['content-type']}): put express.json() or the like before idempotent()`);
  }
  const mark = createHash('sha256').update(`${request.method} ${request.originalUrl}\n`);
  return mark.update(body instanceof Uint8Array ? body : JSON.stringify(body ?? null)).digest('hex');
}

/** Pauses between attempts to record a result, in milliseconds. */
const pauses = [50, 100, 200, 400, 500, 500, 500, 500];

/** One run of a handler: its lease, and how it ends. */
class Run {
  private readonly key: string;
  private readonly terms: { generation: number };

  constructor(
    private readonly client: Client, private readonly begun: Answer<OnceView>,
    private readonly note: (error: unknown, what: string) => void,
  ) {
    this.key = begun.key;
    this.terms = { generation: begun.generation };
  }

  /** Runs the handler, and stores its answer before it leaves. */
  async answer(name: string, response: Response, next: Next): Promise<void> {
    const recording = new Recording(response);
    const lease = setInterval(() => {
      this.client.once.extend(this.key, this.terms).catch((error: unknown) => {
        if (!isAway(error)) clearInterval(lease);
      });
    }, (this.begun.lease ?? 3000) / 3);
    lease.unref();
    next();
    const how = await recording.ended;
    // A handler that gives its connection up may have done its work: the key is left to its lease.
    const problem = how.isDestroyed ? undefined : await this.end(how, recording.stored);
    clearInterval(lease);
    if (how.isDestroyed) return;
    if (problem === undefined) return recording.send();
    console.error(`countdownd: the answer of ${name} cannot be stored for its Idempotency-Key: ${problem}`);
    recording.replace((its) => refuse(its, 500, 'Internal server error.'));
  }

  /** Ends the run. Returns why the answer cannot be stored. */
  private async end(how: Ended, answer: Stored): Promise<string | undefined> {
    if (how.problem !== undefined) return how.problem;
    // These invite to try again.
    if (answer.status !== 429 && answer.status < 500) return this.done(answer.packed());
    await this.client.once.cancel(this.key, this.terms).catch((error: unknown) => this.note(error, 'is left to its lease'));
    return undefined;
  }

  /** Stores an answer. If that fails, the key stays taken until its lease expires. */
  private async done(result: Buffer): Promise<string | undefined> {
    if (result.length > mostStored) return tooLarge(result.length);
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.client.once.done(this.key, result, this.terms);
        return undefined;
      } catch (error) {
        if (error instanceof LimitReached) return tooLarge(result.length);
        if (!isAway(error) || attempt === pauses.length) {
          this.note(error, 'is done, but that is not stored, so it may run again');
          return undefined;
        }
      }
      await new Promise<void>((resolve) => { setTimeout(resolve, pauses[attempt]!); });
    }
  }
}

// Errors

function failOf(options: Common, usual: 'open' | 'closed'): 'open' | 'closed' {
  const { fail = usual } = options;
  if (fail !== 'open' && fail !== 'closed') throw new TypeError(`fail is 'open' or 'closed', not ${String(fail)}`);
  return fail;
}

/** Goes on without the daemon, or answers. A mistake of the program goes to the app's error handlers. */
function failed(fail: 'open' | 'closed', error: unknown, request: Request, response: Response, next: Next): void {
  if (!isAway(error)) return next(error);
  console.warn(`countdownd: ${request.method} ${request.originalUrl} fails ${fail}: ${String(error)}`);
  if (fail === 'open') return next();
  response.setHeader('Retry-After', '1');
  refuse(response, 503, 'Try again later.');
}
