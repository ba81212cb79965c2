import { isUtf8 } from 'node:buffer';
import { createConnection, Socket } from 'node:net';
import { CountdowndError, Raw, Word } from './base.js';

/** @internal The connection was lost; the command may have run, unless it could not be sent. */
export class Lost extends Error {
  constructor(cause: unknown, readonly isSent: boolean) {
    super(cause instanceof Error ? cause.message : String(cause), { cause } as object);
  }
}

/** @internal An error reply, as it came. */
export class Failure {
  constructor(readonly code: string, readonly text: string) {}
}

interface Request {
  resolve(reply: unknown): void;
  reject(error: Lost): void;
  isSent: boolean;
  batch: Batch;
}

/** Commands that are written together. */
interface Batch {
  count: number;
}

/** Pushes that wait before the socket is read no further: the daemon then keeps, or drops, the rest. */
const mostPushes = 1000;

/** @internal A connection that speaks RESP3:
 * https://redis.io/docs/latest/develop/reference/protocol-spec/ */
export class Connection {
  private readonly requests: Request[] = [];
  private readonly pushes: unknown[][] = [];
  /** What is written at the end of this turn; null if nothing is. */
  private batch: Batch | null = null;
  private wake: (() => void) | null = null;
  private unread: Buffer = Buffer.alloc(0);
  private isPaused = false;
  private isRetired = false;
  private isStaying = false;
  /** Why it is over; null while it is not. */
  private end: unknown = null;

  private constructor(private readonly socket: Socket) {
    socket.on('data', (data) => this.take(data as Buffer));
    socket.on('error', (error) => this.close(error));
    socket.on('close', () => this.close(new Error('the daemon has closed the connection')));
  }

  /** Connects, and says HELLO. `opened` gets the connection before that. */
  static async open(path: string, opened: (connection: Connection) => void): Promise<Connection> {
    const connection = new Connection(createConnection(path));
    opened(connection);
    const reply = await connection.exchange(['HELLO', '3', 'SETNAME', 'node']);
    if (reply instanceof Failure) {
      connection.close(new Error(reply.text));
      throw new CountdowndError(reply.code, reply.text);
    }
    return connection;
  }

  get isOver(): boolean {
    return this.end !== null;
  }

  /** Sends a command, and returns its reply; several can be under way. */
  exchange(words: Word[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.end !== null) return reject(new Lost(this.end, false));
      const request: Request = { resolve, reject, isSent: true, batch: this.nextBatch() };
      this.requests.push(request);
      this.resume();
      this.socket.ref();
      this.socket.write(encoded(words), (error) => { if (error) this.unwritten(request, error); });
    });
  }

  /** Returns what the next command is written with: those of one turn together, but for the first
   * after a rest. If that cannot be written, the others are not sent either. */
  private nextBatch(): Batch {
    if (this.requests.length === 0) return { count: 1 };
    if (this.batch === null) {
      this.batch = { count: 0 };
      this.socket.cork();
      process.nextTick(() => {
        this.batch = null;
        this.socket.uncork();
      });
    }
    this.batch.count += 1;
    return this.batch;
  }

  /** Ends the connection, which did not take all of a batch. The daemon runs no command that it has
   * only in part, but may run those before it. */
  private unwritten(first: Request, error: Error): void {
    const index = this.requests.indexOf(first);
    for (const one of index < 0 ? [] : this.requests.slice(index)) {
      if (one.batch !== first.batch || one.batch.count === 1) one.isSent = false;
    }
    this.close(error);
  }

  /** Returns the next push; those that came are left when the connection is lost. */
  async nextPush(): Promise<unknown[]> {
    for (;;) {
      const push = this.pushes.shift();
      if (push !== undefined) {
        if (this.pushes.length === 0) this.resume();
        return push;
      }
      if (this.end !== null) throw new Lost(this.end, true);
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
  }

  /** Takes what has been pushed so far. */
  takePushes(): unknown[][] {
    return this.pushes.splice(0);
  }

  /** Ends it once the replies have come that it waits for. */
  retire(): void {
    this.isRetired = true;
    if (this.requests.length === 0) this.close(new Error('the connection is not needed any more'));
  }

  close(reason: unknown): void {
    if (this.end !== null) return;
    this.end = reason;
    this.socket.destroy();
    for (const one of this.requests.splice(0)) one.reject(new Lost(reason, one.isSent));
    this.wake?.();
  }

  private resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.socket.resume();
  }

  /** Lets the program end while this connection waits for nothing. */
  private rest(): void {
    if (this.requests.length > 0) return;
    if (this.isRetired) this.retire();
    else if (!this.isStaying) this.socket.unref();
  }

  private take(data: Buffer): void {
    this.unread = this.unread.length === 0 ? data : Buffer.concat([this.unread, data]);
    const reader = new Reader(this.unread);
    let used = 0;
    try {
      for (let value = reader.value(); value !== undefined; value = reader.value()) {
        used = reader.at;
        // The confirmation of a subscription is a push, and the reply to its command.
        const isEvent = value instanceof Push && !/^p?subscribe$/.test(String(value.elements[0]));
        if (!isEvent) this.requests.shift()?.resolve(value);
        else if (this.isStaying) this.pushes.push((value as Push).elements);
      }
    } catch (error) {
      return this.close(error);
    }
    this.unread = this.unread.subarray(used);
    if (this.pushes.length > mostPushes && !this.isPaused && this.requests.length === 0) {
      this.isPaused = true;
      this.socket.pause();
    }
    if (this.pushes.length > 0) this.wake?.();
    this.rest();
  }

  /** Keeps the program running while it waits for pushes. */
  stay(): void {
    this.isStaying = true;
    this.socket.ref();
  }
}

class Push {
  constructor(readonly elements: unknown[]) {}
}

function encoded(words: Word[]): string | Buffer {
  const parts: Uint8Array[] = [];
  let text = `*${words.length}\r\n`;
  for (const word of words) {
    if (typeof word === 'string') {
      text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
    } else {
      parts.push(Buffer.from(`${text}$${word.length}\r\n`), word);
      text = '\r\n';
    }
  }
  return parts.length === 0 ? text : Buffer.concat([...parts, Buffer.from(text)]);
}

const [plus, open, minus, colon, comma, hash, underscore, dollar, equal, percent, star, tilde, more] = [
  ...Buffer.from('+(-:,#_$=%*~>'),
];

/** Reads values; undefined if the rest is still to come. */
class Reader {
  at = 0;

  constructor(private readonly buffer: Buffer) {}

  value(): unknown {
    const { buffer } = this;
    const kind = buffer[this.at];
    const end = buffer.indexOf(13, this.at);
    // Its line ends with two bytes.
    if (end < 0 || end + 1 >= buffer.length) return undefined;
    const begin = this.at + 1;
    this.at = end + 2;
    switch (kind) {
      case plus: case open: return this.text(begin, end);
      case minus: {
        const rest = this.text(begin, end);
        const [, code, text] = /^(\S+) ?(.*)$/s.exec(rest) ?? ['', 'ERR', rest];
        return new Failure(code!, text!);
      }
      case colon: case comma: return Number(this.text(begin, end));
      case hash: return buffer[begin] === 0x74;
      case underscore: return null;
    }
    let count = begin === end ? NaN : 0;
    for (let at = begin; at < end; at += 1) {
      const digit = buffer[at]! - 0x30;
      count = digit >= 0 && digit <= 9 ? 10 * count + digit : NaN;
    }
    if (Number.isNaN(count)) throw new Error('not the protocol of countdownd');
    switch (kind) {
      case dollar: case equal: return this.bytes(count, kind === equal ? 4 : 0);
      case percent: return this.map(count);
      case star: case tilde: return this.list(count);
      case more: {
        const elements = this.list(count);
        return elements && new Push(elements);
      }
      default: throw new Error('not the protocol of countdownd');
    }
  }

  /** Text, or bytes that are none. */
  private bytes(count: number, head: number): string | Buffer | undefined {
    const end = this.at + count;
    if (end + 2 > this.buffer.length) return undefined;
    const begin = this.at + head;
    this.at = end + 2;
    const text = this.text(begin, end);
    // What is no text has become one of this character, which text may have, too.
    if (!text.includes('\ufffd')) return text;
    const its = this.buffer.subarray(begin, end);
    return isUtf8(its) ? text : Buffer.from(its);
  }

  /** Short ASCII is read faster here than by Node. */
  private text(begin: number, end: number): string {
    const { buffer } = this;
    if (end - begin > 24) return buffer.toString('utf8', begin, end);
    let text = '';
    for (let at = begin; at < end; at += 1) {
      const byte = buffer[at]!;
      if (byte > 127) return buffer.toString('utf8', begin, end);
      text += String.fromCharCode(byte);
    }
    return text;
  }

  private list(count: number): unknown[] | undefined {
    const elements: unknown[] = [];
    for (let index = 0; index < count; index += 1) {
      const value = this.value();
      if (value === undefined) return undefined;
      elements.push(value);
    }
    return elements;
  }

  private map(count: number): Raw | undefined {
    const pairs = this.list(2 * count);
    if (pairs === undefined) return undefined;
    const raw: Raw = {};
    for (let index = 0; index < pairs.length; index += 2) raw[String(pairs[index])] = pairs[index + 1];
    return raw;
  }
}
