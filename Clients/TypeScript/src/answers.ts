import { Response } from './middleware.js';

/** The most that is sent to the daemon as an answer, in bytes. The daemon has a limit of its own:
 * limits.max-result-length. */
export const mostStored = 250_000;

/** Headers of a connection or a moment, or of what is around the handler. */
const notStored = new Set([
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding',
  'upgrade', 'content-length', 'date', 'retry-after', 'ratelimit', 'ratelimit-policy', 'idempotency-replayed',
]);

/** An answer as ONCE keeps it: a line of JSON, and the body. */
export class Stored {
  constructor(readonly status: number, readonly headers: [string, string][], readonly body: Buffer) {}

  static read(result: Uint8Array): Stored {
    const its = Buffer.from(result);
    const end = its.indexOf('\n');
    const { status, headers } = JSON.parse(its.toString('utf8', 0, end)) as Pick<Stored, 'status' | 'headers'>;
    return new Stored(status, headers, its.subarray(end + 1));
  }

  packed(): Buffer {
    const { status, headers } = this;
    return Buffer.concat([Buffer.from(`${JSON.stringify({ status, headers })}\n`), this.body]);
  }

  send(response: Response): void {
    for (const [name] of this.headers) if (!isCookie(name)) response.removeHeader(name);
    for (const [name, value] of this.headers) response.appendHeader(name, value);
    response.statusCode = this.status;
    response.end(this.body);
  }
}

/** How a handler has ended its answer. */
export interface Ended {
  /** Why it cannot be stored. */
  problem?: string;
  /** Whether the handler has given up its connection. */
  isDestroyed?: boolean;
}

const methods = ['writeHead', 'write', 'end', 'flushHeaders', 'destroy'] as const;

/** Holds what a handler answers, whichever way it does, until it is stored. */
export class Recording {
  readonly ended: Promise<Ended>;
  private isOver = false;
  private finish: (how: Ended) => void = () => {};
  private readonly original: Pick<Response, typeof methods[number]>;
  private readonly outer = new Map<string, string[]>();
  private headers: [string, number | string | string[]][] = [];
  private status = 200;
  private readonly parts: Uint8Array[] = [];
  private size = 0;
  private whenSent: (() => void) | undefined;

  constructor(private readonly response: Response) {
    const { writeHead, write, end, flushHeaders, destroy } = response;
    this.original = { writeHead, write, end, flushHeaders, destroy };
    for (const name of response.getRawHeaderNames()) this.outer.set(name.toLowerCase(), texts(response.getHeader(name)));
    this.ended = new Promise((resolve) => {
      this.finish = (how) => {
        if (this.isOver) return;
        this.isOver = true;
        this.status = response.statusCode;
        this.headers = response.getRawHeaderNames().map((name) => [name, response.getHeader(name)!]);
        resolve(how);
      };
    });
    response.writeHead = (status, ...rest) => this.head(status, rest);
    response.write = (...words) => this.write(...words);
    response.end = (...words) => this.end(...words);
    response.flushHeaders = () => this.finish({ problem: 'it is streamed; answer with a whole body' });
    response.destroy = (...words) => {
      this.finish({ isDestroyed: true });
      return destroy.apply(response, words);
    };
  }

  /** The answer, once it has ended, with the headers that the handler has set. */
  get stored(): Stored {
    const headers: [string, string][] = [];
    for (const [name, value] of this.headers) {
      const outer = this.outer.get(name.toLowerCase()) ?? [];
      let its = texts(value);
      if (notStored.has(name.toLowerCase()) || isSame(its, outer)) continue;
      if (isCookie(name) && isSame(its.slice(0, outer.length), outer)) its = its.slice(outer.length);
      headers.push(...its.map((one): [string, string] => [name, one]));
    }
    return new Stored(this.status, headers, Buffer.concat(this.parts));
  }

  /** Sends the answer; what the handler did after its end does not count. */
  send(): void {
    const { response } = this;
    Object.assign(response, this.original);
    for (const name of response.getRawHeaderNames()) response.removeHeader(name);
    for (const [name, value] of this.headers) response.setHeader(name, value);
    response.statusCode = this.status;
    response.end(Buffer.concat(this.parts), this.whenSent);
  }

  /** Sends something else, and ignores what the handler still writes. */
  replace(send: (response: Response) => void): void {
    const { response } = this;
    const { write, end } = response;
    for (const name of response.getRawHeaderNames()) if (!this.outer.has(name.toLowerCase())) response.removeHeader(name);
    Object.assign(response, this.original);
    send(response);
    response.write = write;
    response.end = end;
  }

  private head(status: number, rest: unknown[]): Response {
    const headers = rest.find((one) => typeof one === 'object' && one !== null);
    if (this.isOver) return this.response;
    this.response.statusCode = status;
    const flat = Array.isArray(headers) ? headers.flat() as string[] : Object.entries(headers ?? {}).flat() as string[];
    for (let index = 0; index + 1 < flat.length; index += 2) this.response.setHeader(flat[index]!, flat[index + 1]!);
    return this.response;
  }

  private write(...words: unknown[]): boolean {
    const done = words.find((word) => typeof word === 'function') as (() => void) | undefined;
    if (!this.isOver && !this.response.hasHeader('Content-Length')) {
      this.finish({ problem: 'it is streamed; answer with a whole body' });
    }
    this.take(words);
    if (done) queueMicrotask(done);
    return true;
  }

  private end(...words: unknown[]): Response {
    const done = words.find((word) => typeof word === 'function') as (() => void) | undefined;
    if (!this.isOver) this.whenSent = done;
    this.take(words);
    this.finish({});
    return this.response;
  }

  private take([chunk, encoding]: unknown[]): void {
    if (this.isOver || chunk === undefined || chunk === null || typeof chunk === 'function') return;
    const bytes = typeof chunk === 'string'
      ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk as Uint8Array;
    this.size += bytes.length;
    if (this.size > mostStored) {
      this.parts.length = 0;
      return this.finish({ problem: tooLarge(this.size) });
    }
    this.parts.push(bytes);
  }
}

export function tooLarge(size: number): string {
  return `it has ${size} bytes or more; answer with less, such as a Location, or raise limits.max-result-length `
    + `(at most ${mostStored})`;
}

function texts(value: number | string | string[] | undefined): string[] {
  return value === undefined ? [] : [value].flat().map(String);
}

function isSame(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index]);
}

function isCookie(name: string): boolean {
  return name.toLowerCase() === 'set-cookie';
}
