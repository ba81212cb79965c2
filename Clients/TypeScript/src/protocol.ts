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
}

/** Pushes that wait before the socket is read no further: the daemon then keeps, or drops, the rest. */
const mostPushes = 1000;

/** @internal A connection that speaks RESP3:
 * https://redis.io/docs/latest/develop/reference/protocol-spec/ */
export class Connection {
  private readonly requests: Request[] = [];
  private readonly pushes: unknown[][] = [];
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
      const request: Request = { resolve, reject, isSent: true };
      if (this.end !== null) return reject(new Lost(this.end, false));
      this.requests.push(request);
      this.resume();
      this.socket.ref();
      this.socket.write(encoded(words), (error) => {
        if (!error) return;
        request.isSent = false;
        this.close(error);
      });
    });
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

function encoded(words: Word[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = typeof word === 'string' ? Buffer.from(word) : word;
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

/** Reads values; undefined if the rest is still to come. */
class Reader {
  at = 0;

  constructor(private readonly buffer: Buffer) {}

  value(): unknown {
    const end = this.buffer.indexOf('\r\n', this.at);
    if (end < 0) return undefined;
    const kind = String.fromCharCode(this.buffer[this.at]!);
    const rest = this.buffer.toString('utf8', this.at + 1, end);
    this.at = end + 2;
    switch (kind) {
      case '+': case '(': return rest;
      case '-': {
        const [, code, text] = /^(\S+) ?(.*)$/s.exec(rest) ?? ['', 'ERR', rest];
        return new Failure(code!, text!);
      }
      case ':': case ',': return Number(rest);
      case '#': return rest === 't';
      case '_': return null;
    }
    const count = Number(rest);
    if (!Number.isInteger(count) || count < 0) throw new Error('not the protocol of countdownd');
    switch (kind) {
      case '$': case '=': return this.bytes(count, kind === '=' ? 4 : 0);
      case '%': return this.map(count);
      case '*': case '~': return this.list(count);
      case '>': {
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
    const its = this.buffer.subarray(this.at + head, end);
    this.at = end + 2;
    return isUtf8(its) ? its.toString() : Buffer.from(its);
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
