import { createRequire } from 'node:module';
import { existsSync, statSync } from 'node:fs';
import type { createClient } from 'redis';
import { CountdowndError, Down, Raw, Word, fields } from './base.js';
import { Commands, Reason, Unsure, Views, errors, views } from './generated.js';

export { Answer, CountdowndError, Data, Down, Duration, Moment, Page, Raw } from './base.js';
export * from './generated.js';

type Redis = ReturnType<typeof createClient>;

/** What happened to an entity. Its name is one of those in the reference of its kind, or `snapshot`:
 * the state when the watch began, or `gap`: events may be missing, so read the state. */
export interface Event<K extends keyof Views = keyof Views> {
  kind: K;
  name: string;
  key: string;
  generation: number;
  /** Rises across the whole daemon and across restarts. */
  seq: number;
  /** What identifies the event: in a fleet the same on all hosts, else its `seq`. */
  position: string;
  /** Where to continue after this event, on any host of a fleet: `since` of `watch`. */
  cursor: string;
  reason: Reason | null;
  /** The status of the entity at the event; fields that the event does not have are empty. */
  view: Views[K];
  raw: Raw;
}

export interface Options {
  /** The socket; else COUNTDOWND_SOCKET, else /run/countdownd/countdownd.sock. */
  path?: string;
  /** How long to wait for a reply, in milliseconds; 5000 if it is not given. */
  timeout?: number;
}

export interface WatchOptions {
  /** The `cursor` of the last event that you have, on this host or another one of its fleet: the
   * events after it come first. */
  since?: string;
  /** Whether to begin with the state of each entity; true if it is not given. */
  snapshots?: boolean;
  signal?: AbortSignal;
}

/** A client of the countdownd on this machine. It connects when it needs to, and fails at once when
 * the daemon is down. */
export class Client extends Commands {
  private redis: Promise<Redis> | null = null;

  constructor(private readonly options: Options = {}) {
    super((words, repeatable, ownToken) => this.call(words, repeatable, ownToken === true));
  }

  get path(): string {
    return this.options.path || process.env.COUNTDOWND_SOCKET || '/run/countdownd/countdownd.sock';
  }

  /** Sends any command, and returns its reply as it came. */
  async command(...words: Word[]): Promise<unknown> {
    return this.call(words, false, false);
  }

  /** Returns a client with one connection: what has `owner: 'connection'` ends with it. */
  connected(): Client {
    return new Connected(this.options);
  }

  /** Returns the events of channels such as 'countdown:*', as they happen. It begins with a snapshot
   * of each entity. It connects again by itself, and misses nothing that the event log has; else it
   * reports a `gap`. */
  watch(patterns: string | string[], options: WatchOptions = {}): AsyncGenerator<Event> {
    return watch(this, [patterns].flat(), options);
  }

  async close(): Promise<void> {
    const redis = this.redis;
    this.redis = null;
    if (redis) await redis.then((one) => one.disconnect()).catch(() => {});
  }

  protected lost(): void {
    this.redis = null;
  }

  private async call(words: Word[], repeatable: boolean, ownToken: boolean): Promise<unknown> {
    try {
      return await this.attempt(words);
    } catch (error) {
      if (error instanceof CountdowndError) throw error;
      const problem = `the reply of ${words.slice(0, 2).join(' ')} is lost (${String(error)})`;
      if (!repeatable || this.isSingle) throw new Unsure('UNSURE', problem, { cause: error });
      try {
        const reply = await this.attempt(words);
        // The token was made for this call alone, so nobody else was accepted with it.
        if (ownToken && Array.isArray(reply)) {
          const place = reply.findIndex((one, at) => at % 2 === 0 && String(one) === 'reason');
          if (place >= 0 && String(reply[place + 1]) === 'repeated') reply[place + 1] = null;
        }
        return reply;
      } catch (second) {
        if (second instanceof CountdowndError && !(second instanceof Down)) throw second;
        throw new Unsure('UNSURE', `${problem}, and so is that of its repetition`, { cause: second });
      }
    }
  }

  protected get isSingle(): boolean {
    return false;
  }

  /** Sends a command once. An error of the daemon is a CountdowndError, a lost reply any other. */
  private async attempt(words: Word[]): Promise<unknown> {
    this.redis ??= this.connect();
    let redis: Redis;
    try {
      redis = await this.redis;
    } catch (error) {
      this.redis = null;
      throw error;
    }
    let timer: (() => void) | undefined;
    const late = new Promise((_, reject) => {
      timer = deadline(this.options.timeout ?? patience(), () => reject(new Error('no reply in time')));
    });
    try {
      const sent = redis.sendCommand(words.map(bytes), { returnBuffers: true, typeMapping: { 36: Buffer } });
      sent.catch(() => {});
      return await Promise.race([sent, late]);
    } catch (error) {
      const failure = translated(error);
      if (!(failure instanceof CountdowndError)) {
        this.lost();
        redis.disconnect().catch(() => {});
      }
      throw failure;
    } finally {
      timer?.();
    }
  }

  protected async connect(): Promise<Redis> {
    return connect(this.path, () => this.lost());
  }
}

/** One connection, which never connects again. */
class Connected extends Client {
  private wasConnected = false;

  protected override get isSingle(): boolean {
    return true;
  }

  protected override async connect(): Promise<Redis> {
    if (this.wasConnected) throw new Down('DOWN', 'the connection is closed, and what it owned has ended');
    this.wasConnected = true;
    return super.connect();
  }
}

function bytes(word: Word): string | Buffer {
  return typeof word === 'string' ? word : (word as Buffer);
}

/** How long to wait for a reply; long in tests, whose machines are busy. */
function patience(): number {
  return process.env.COUNTDOWND_TESTING ? 60_000 : 5000;
}

function deadline(milliseconds: number, callback: () => void): () => void {
  const timer = setTimeout(callback, milliseconds) as { unref?(): void };
  timer.unref?.();
  return () => (globalThis as unknown as { clearTimeout(timer: unknown): void }).clearTimeout(timer);
}

async function library(): Promise<typeof createClient> {
  let found: unknown;
  try {
    found = await import('redis');
  } catch {
    // Debian's node-redis, which only `require` finds.
    // Debian's node-redis, which only `require` finds, with NODE_PATH=/usr/share/nodejs.
    try {
      found = createRequire(import.meta.url)('redis');
    } catch (error) {
      throw new CountdowndError('ERR', 'node-redis is missing: npm install redis', { cause: error });
    }
  }
  const its = found as { createClient?: typeof createClient; default?: { createClient: typeof createClient } };
  return (its.createClient ?? its.default?.createClient)!;
}

async function connect(path: string, lost: () => void): Promise<Redis> {
  const redis = (await library())({
    socket: { path, reconnectStrategy: () => new Error('lost') }, disableOfflineQueue: true,
  });
  redis.on('error', lost);
  redis.on('end', lost);
  try {
    await redis.connect();
  } catch (error) {
    redis.disconnect().catch(() => {});
    const cause = (error as { originalError?: unknown }).originalError ?? error;
    throw new Down('DOWN', explanation(path, cause), { cause });
  }
  return redis;
}

/** Says why nobody answers at a socket, and what to check. */
function explanation(path: string, error: unknown): string {
  if (!existsSync(path)) {
    return `there is no socket at ${path}; start countdownd (systemctl status countdownd), or set COUNTDOWND_SOCKET`;
  }
  if (!statSync(path).isSocket()) return `${path} is not a socket; set COUNTDOWND_SOCKET`;
  if (String(error).includes('EACCES')) return `${path}: permission denied; add this user to the group of the socket`;
  return `nobody answers at ${path} (${String(error)}); is countdownd running? systemctl status countdownd`;
}

function translated(error: unknown): unknown {
  const message = error instanceof Error ? error.message : String(error);
  const [, code, rest] = /^([A-Z]+) (.*)$/s.exec(message) ?? [];
  if (code === undefined) return error;
  const its = errors[code] ?? CountdowndError;
  return new its(code, rest ?? '');
}

const pauses = [0, 10, 20, 50, 100, 200, 500];

function toEvent(channel: string, raw: Raw): Event {
  const kind = channel.split(':', 1)[0] as keyof Views;
  const key = raw.key ?? Buffer.from(String(raw.key_base64 ?? ''), 'base64').toString();
  return {
    kind, name: String(raw.event), key: String(key), generation: Number(raw.generation),
    seq: Number(raw.seq), position: String(raw.position ?? raw.seq), cursor: '',
    reason: (raw.reason as Reason | undefined) ?? null, view: views[kind](raw), raw,
  };
}

const gap = { event: 'gap', key: '', generation: 0, seq: 0 };
const isState = (event: Event): boolean => event.name === 'snapshot' || event.name === 'gap';

/** Where a watch has read: a cursor of the daemon, and the newest event of each log since then. */
class Place {
  private readonly newest = new Map<string, string>();

  constructor(private readonly cursor: string) {}

  get text(): string {
    return [this.cursor, ...this.newest.values()].join('-');
  }

  /** Continues after an event. */
  stamp(event: Event): Event {
    if (!isState(event)) {
      const [log, ...rest] = event.position.split('.', 2);
      this.newest.set(rest.length > 0 ? log! : '', event.position);
    }
    event.cursor = this.text;
    return event;
  }
}

async function* watch(client: Client, patterns: string[], options: WatchOptions): AsyncGenerator<Event> {
  const { signal, snapshots = true } = options;
  let place = options.since === undefined ? undefined : new Place(options.since);
  let wasReady = false;
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    let waiting: Event[] = [];
    let wake = (): void => {};
    let isLost = false;
    const end = (): void => {
      isLost = true;
      wake();
    };
    let redis: Redis | undefined;
    let asker: Redis | undefined;
    try {
      // A subscribed connection of RESP2 cannot ask for what it has missed.
      asker = await connect(client.path, end);
      const isNew = place === undefined;
      place ??= new Place(String(await asker.sendCommand(['EVENTS', 'CURSOR'])));
      redis = await connect(client.path, end);
      const took = (line: string, channel: string): void => {
        waiting.push(toEvent(channel, JSON.parse(line) as Raw));
        wake();
      };
      // A channel has a snapshot even if there is no such entity.
      const globs = patterns.filter((one) => /[*?[\\]/.test(one));
      const channels = patterns.filter((one) => !globs.includes(one));
      if (globs.length > 0) await redis.pSubscribe(globs, took);
      if (channels.length > 0) await redis.subscribe(channels, took);
      signal?.addEventListener('abort', end);
      const missed: Event[] = [];
      const matches = patterns.flatMap((pattern) => ['MATCH', pattern]);
      let next = new Place(place.text);
      for (let more = !isNew; more; ) {
        const reply = fields(await asker.sendCommand(['EVENTS', 'SINCE', next.text, ...matches]));
        if (Number(reply.complete) !== 1 && missed.length === 0) {
          missed.push(toEvent('countdown:', gap));
        }
        for (const [channel, line] of reply.events as [string, string][]) {
          missed.push(next.stamp(toEvent(channel, JSON.parse(line) as Raw)));
        }
        next = new Place(String(reply.cursor));
        more = Number(reply.more) === 1;
      }
      place = next;
      wasReady = true;
      attempt = 0;
      // Some come on both connections.
      const known = new Set(missed.filter((event) => !isState(event)).map((event) => event.position));
      const isNews = (event: Event): boolean =>
        isState(event) || !known.has(place!.stamp(event).position);
      let both = -1;
      waiting.forEach((event, index) => {
        if (!isState(event) && known.has(event.position)) both = index;
      });
      const arrived = waiting.filter(
        (event, index) => index >= both || event.name !== 'tick' && event.name !== 'progress');
      waiting = arrived.filter((event) => !isState(event));
      for (const event of [...missed, ...arrived].filter(isState)) {
        if (event.name !== 'snapshot' || snapshots) yield event;
      }
      for (const event of missed) if (!isState(event)) yield event;
      while (!signal?.aborted) {
        const event = waiting.shift();
        if (event === undefined) {
          if (isLost) break;
          await new Promise<void>((resolve) => { wake = resolve; });
        } else if (isNews(event) && (event.name !== 'snapshot' || snapshots)) {
          yield event;
        }
      }
    } catch (error) {
      const failure = translated(error);
      const isLoading = failure instanceof CountdowndError && failure.code === 'LOADING';
      if (!wasReady && !isLoading) throw failure;
    } finally {
      redis?.disconnect().catch(() => {});
      asker?.disconnect().catch(() => {});
    }
    if (signal?.aborted) return;
    await new Promise<void>((resolve) => { setTimeout(resolve, pauses[Math.min(attempt, pauses.length - 1)]!); });
  }
}
