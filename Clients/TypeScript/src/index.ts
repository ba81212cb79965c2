import { existsSync, statSync } from 'node:fs';
import { Closed, CountdowndError, Down, Raw, Word, sameBytes } from './base.js';
import { Commands, Unsure, bound, errors } from './generated.js';
import { Connection, Failure, Lost } from './protocol.js';
import { Event, Following, KindOf, WatchOptions, follow } from './watch.js';

export { Answer, Closed, CountdowndError, Data, Down, Duration, Moment, Page, Raw } from './base.js';
export { Event, EventOf, KindOf, WatchOptions } from './watch.js';
export * from './generated.js';

export interface Options {
  /** The socket; else COUNTDOWND_SOCKET, else /run/countdownd/countdownd.sock. */
  path?: string;
  /** How long a call takes at most, in milliseconds; 5000 if it is not given. */
  timeout?: number;
}

/** What a call is about, besides its words. */
interface Terms {
  /** Whether it is safe to repeat the command if its reply is lost. */
  isRepeatable: boolean;
  /** Whether the token was made for this call alone. */
  isOwnToken: boolean;
  end: number;
  signal?: AbortSignal;
}

/** A client of the countdownd on this machine. It connects when it needs to, and fails at once when
 * the daemon is down. docs/reference/clients.md says what happens when calls are cancelled, replies
 * are lost or the daemon is down. */
export class Client extends Commands {
  private connection: Promise<Connection> | null = null;
  private readonly connections = new Set<Connection>();
  private readonly watches = new Set<Following>();
  private isClosed = false;

  constructor(private readonly options: Options = {}) {
    super((words, repeatable, ownToken) => this.call(words, repeatable, ownToken === true));
  }

  get path(): string {
    return this.options.path || process.env.COUNTDOWND_SOCKET || '/run/countdownd/countdownd.sock';
  }

  /** How long a call takes at most, in milliseconds; long in tests, whose machines are busy. */
  get timeout(): number {
    return this.options.timeout ?? (process.env.COUNTDOWND_TESTING ? 60_000 : 5000);
  }

  /** Returns the commands of this client, each of which ends with a signal. If it was sent by then,
   * the error is Unsure; its name and cause are those of the signal's reason. */
  aborting(signal: AbortSignal): Commands {
    return new Commands((words, repeatable, ownToken) => this.call(words, repeatable, ownToken === true, signal));
  }

  /** Sends any command, and returns its reply as it came. One that would break a connection which
   * others share, such as MULTI, is a TypeError: use `connected`. */
  async command(...words: Word[]): Promise<unknown> {
    if (!this.isSingle) {
      const [first, second] = words.slice(0, 2).map((word) => String(word).toUpperCase());
      const name = [first!, `${first} ${second}`].find((one) => bound.has(one));
      if (name) throw new TypeError(`${name} would break a connection that is shared; use connected()`);
    }
    return this.call(words, false, false);
  }

  /** Returns a client with one connection: what has `owner: 'connection'` ends with it. */
  connected(): Client {
    return new Connected(this.options);
  }

  /** Returns the events of channels such as 'countdown:*', as they happen. It begins with a snapshot
   * of each entity. It waits for a daemon that is down, and connects again by itself. It misses
   * nothing that the event log has; else it reports a `gap`. */
  watch<P extends string>(patterns: P | P[], options: WatchOptions = {}): AsyncGenerator<Event<KindOf<P>>> {
    const its: string[] = [patterns].flat();
    if (its.length === 0) throw new TypeError("name a channel or a pattern, such as 'countdown:*'");
    if (this.isClosed) throw new Closed();
    const following: Following = {
      isOver: false, end: () => { following.isOver = true; }, forget: () => this.watches.delete(following),
    };
    this.watches.add(following);
    const events = follow(this, its, options, following) as AsyncGenerator<Event<KindOf<P>>>;
    const finish = events.return.bind(events);
    // It ends a `next` that waits, too.
    events.return = (value) => {
      following.end();
      following.forget();
      return finish(value);
    };
    return events;
  }

  /** Ends calls and watches, and the client for good: Closed. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.connection = null;
    for (const one of this.watches) one.end();
    for (const one of this.connections) one.close(new Closed());
    this.watches.clear();
    this.connections.clear();
  }

  protected get isSingle(): boolean {
    return false;
  }

  /** @internal Makes a connection. `opened` gets it before it is ready. */
  async dial(opened?: (connection: Connection) => void): Promise<Connection> {
    let its: Connection | undefined;
    try {
      return await this.within(Connection.open(this.path, (connection) => {
        its = connection;
        for (const one of this.connections) if (one.isOver) this.connections.delete(one);
        this.connections.add(connection);
        opened?.(connection);
      }), () => its);
    } catch (error) {
      its?.close(error);
      if (this.isClosed) throw new Closed();
      if (error instanceof CountdowndError) throw this.translated(new Failure(error.code, error.message));
      throw new Down('DOWN', explanation(this.path, error), { cause: error });
    }
  }

  /** @internal Ends a connection that takes too long. */
  async within<T>(
    reply: Promise<T>, connection: () => Connection | undefined, end = Date.now() + this.timeout,
  ): Promise<T> {
    const timer = setTimeout(
      () => connection()?.close(new Error('no reply in time')), Math.max(end - Date.now(), 0));
    try {
      return await reply;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @internal */
  translated(failure: Failure): CountdowndError {
    return new (errors[failure.code] ?? CountdowndError)(failure.code, failure.text);
  }

  private async call(
    words: Word[], isRepeatable: boolean, isOwnToken: boolean, signal?: AbortSignal,
  ): Promise<unknown> {
    check(words);
    if (signal?.aborted) throw signal.reason;
    const terms: Terms = { isRepeatable, isOwnToken, end: Date.now() + this.timeout, signal };
    try {
      return await this.attempt(words, terms);
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      if (error.isSent) return this.again(words, terms, error);
    }
    // The connection had ended, so the command was not sent.
    try {
      return await this.attempt(words, terms);
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      if (error.isSent) return this.again(words, terms, error);
      throw new Down('DOWN', explanation(this.path, error.cause), { cause: error.cause });
    }
  }

  /** Repeats a command whose reply was lost, if that is safe and there is time. */
  private async again(words: Word[], terms: Terms, lost: Lost): Promise<unknown> {
    if (this.isClosed) throw new Closed(true);
    const problem = `the reply of ${words.slice(0, 2).map(String).join(' ')} is lost (${lost.message})`;
    const unsure = 'the command may have run, or not';
    if (!terms.isRepeatable || this.isSingle || Date.now() >= terms.end) {
      throw new Unsure('UNSURE', `${problem}: ${unsure}`, { cause: lost.cause });
    }
    try {
      return firstAnswer(await this.attempt(words, terms), words, terms.isOwnToken);
    } catch (second) {
      if (this.isClosed) throw new Closed(true);
      const isAnswer = second instanceof CountdowndError && !(second instanceof Down);
      if (isAnswer && !terms.signal?.aborted) throw second;
      const error = new Unsure(
        'UNSURE', `${problem}, and its repetition failed (${String(second)}): ${unsure}`,
        { cause: terms.signal?.aborted ? terms.signal.reason : lost.cause });
      throw terms.signal?.aborted ? named(error, terms.signal) : error;
    }
  }

  /** Sends a command once. */
  private async attempt(words: Word[], terms: Terms): Promise<unknown> {
    if (this.isClosed) throw new Closed();
    const connection = await this.ready();
    // What is cancelled while it connects is not sent.
    if (terms.signal?.aborted) throw terms.signal.reason;
    const reply = this.within(connection.exchange(words), () => connection, terms.end);
    let stop = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      stop = () => {
        // Its reply is still to come, so nothing else is sent there.
        this.connection = null;
        connection.retire();
        reject(named(new Unsure(
          'UNSURE', `${words.slice(0, 2).map(String).join(' ')} was cancelled: the command may have run, or not`,
          { cause: terms.signal!.reason }), terms.signal!));
      };
      terms.signal?.addEventListener('abort', stop);
    });
    reply.catch(() => {});
    try {
      const its = await (terms.signal ? Promise.race([reply, aborted]) : reply);
      if (its instanceof Failure) throw this.translated(its);
      return its;
    } finally {
      terms.signal?.removeEventListener('abort', stop);
    }
  }

  /** Returns the connection that all calls share. */
  private async ready(): Promise<Connection> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.isClosed) throw new Closed();
      const shared = this.connection ??= this.connect();
      try {
        const connection = await shared;
        // One that ends as soon as it is there is not worth a third attempt.
        if (!connection.isOver || attempt > 1) return connection;
      } catch (error) {
        this.forget(shared);
        throw error;
      }
      // Calls that wait together connect together.
      this.forget(shared);
    }
  }

  private forget(shared: Promise<Connection>): void {
    if (this.connection === shared) this.connection = null;
  }

  protected connect(): Promise<Connection> {
    return this.dial();
  }
}

/** One connection, which never connects again. */
class Connected extends Client {
  private wasConnected = false;

  protected override get isSingle(): boolean {
    return true;
  }

  protected override async connect(): Promise<Connection> {
    if (this.wasConnected) throw new Down('DOWN', 'the connection is closed, and what it owned has ended');
    this.wasConnected = true;
    return super.connect();
  }
}

/** Gives an error the name that a signal's reason has: AbortError or TimeoutError. */
function named(error: Unsure, signal: AbortSignal): Unsure {
  const name = (signal.reason as { name?: unknown } | undefined)?.name;
  error.name = typeof name === 'string' ? name : 'AbortError';
  return error;
}

function check(words: Word[]): void {
  if (words.length === 0) throw new TypeError("name a command, such as 'PING'");
  for (const word of words) {
    if (typeof word !== 'string' && !(word instanceof Uint8Array)) {
      throw new TypeError(`an argument of ${String(words[0])} is text or bytes, not ${String(word)}`);
    }
  }
}

/** Returns the answer that a command had the first time, from that of its repetition. */
function firstAnswer(reply: unknown, words: Word[], isOwnToken: boolean): unknown {
  const raw = reply as Raw | null;
  // The token was made for this call alone, so nobody else was accepted with it.
  const isOwn = isOwnToken && raw?.reason === 'repeated';
  // The result that is recorded is the one of this call.
  const isDone = words[0] === 'ONCE' && words[1] === 'DONE' && raw?.reason === 'duplicate'
    && sameBytes(raw.result, words[3]);
  return isOwn || isDone ? { ...raw, accepted: true, reason: null } : reply;
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
