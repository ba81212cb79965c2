import { createHash } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';
import { CountdowndError, Duration } from './base.js';

/** The part of a request of Express that is used; it has more. */
export interface Request {
  method?: string;
  originalUrl?: string;
  ip?: string;
  body?: unknown;
  get(name: string): string | undefined;
  [more: string]: any;
}

/** The part of a response of Express, or of Node, that is used. */
export interface Response {
  statusCode: number;
  hasHeader(name: string): boolean;
  getHeader(name: string): Header | undefined;
  setHeader(name: string, value: Header): unknown;
  appendHeader(name: string, value: string | string[]): unknown;
  removeHeader(name: string): void;
  getRawHeaderNames(): string[];
  writeHead: Method;
  write: Method;
  end: Method;
  flushHeaders: Method;
  destroy: Method;
}

type Header = number | string | string[];
type Method = (...words: any[]) => any;
export type Next = (error?: unknown) => void;
/** For versions 4 and 5 of Express. */
export type Middleware = (request: any, response: any, next: Next) => void;

/** Whether the daemon cannot be asked, or cannot decide now: it is down, loads, is full or has no room on
 * its disk. Other errors are mistakes of the program or its configuration. */
export function isAway(error: unknown): boolean {
  return error instanceof CountdowndError && !['ERR', 'NOTFOUND', 'STALE', 'NOPERM'].includes(error.code);
}

/** Returns a key of parts, in which only the last one has colons of its own. */
export function keyOf(...parts: string[]): string {
  const last = parts.length - 1;
  const key = parts.map((part, index) => (index < last ? encodeURIComponent(part) : part)).join(':');
  // The longest key of the daemon.
  if (Buffer.from(key).length <= 512) return key;
  return `${encodeURIComponent(parts[0]!)}:${createHash('sha256').update(key).digest('hex')}`;
}

/** Returns an address as limits count it: the network of 64 bits of IPv6, as one client has all of that,
 * and IPv4 alone, also where it is mapped into IPv6. Other text stays as it is. */
export function network(address: string): string {
  const plain = address.split('%', 1)[0]!;
  if (isIPv4(plain) || !isIPv6(plain)) return address;
  const canonical = (text: string): string => new URL(`http://[${text}]/`).hostname.slice(1, -1);
  const groups = (text: string | undefined): string[] => (text ? text.split(':') : []);
  const [head, tail] = canonical(plain).split('::').map(groups) as [string[], string[]?];
  const all = [...head, ...Array<string>(8 - head.length - (tail?.length ?? 0)).fill('0'), ...tail ?? []];
  if (all.slice(0, 6).join(':') === '0:0:0:0:0:ffff') {
    return all.slice(6).flatMap((one) => [parseInt(one, 16) >> 8, parseInt(one, 16) & 255]).join('.');
  }
  return `${canonical(`${all.slice(0, 4).join(':')}::`)}/64`;
}

/** Answers instead of the handler. */
export function refuse(response: Response, status: number, message: string): void {
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.end(JSON.stringify({ message }));
}

/** Returns whole seconds, rounded up. */
export function seconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}

/** Throws a TypeError for what is no time. */
export function checkTime(name: string, time: Duration): void {
  const isRight = typeof time === 'number' ? time > 0 : /^\d/.test(time);
  if (!isRight) throw new TypeError(`${name} is a time, such as '24h', not ${JSON.stringify(time)}`);
}
