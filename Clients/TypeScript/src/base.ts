import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';

/** Milliseconds, or text such as '90s' or '1h30m'. */
export type Duration = number | string;
/** A Date, or text as in ISO 8601 with its time zone, such as '2026-12-01T08:00:00+01:00'. */
export type Moment = Date | string;
/** Data of your own; text is sent as UTF-8. */
export type Data = string | Uint8Array;
/** Fields by name, as they came. */
export type Raw = Record<string, unknown>;
/** @internal */
export type Word = string | Uint8Array;
/** @internal */
export type Send = (words: Word[], repeatable: boolean, ownToken?: boolean) => Promise<unknown>;

/** Any error of this client; `code` is the daemon's, or DOWN. A refusal is none. */
export class CountdowndError extends Error {
  /** Whether the command may have run, though there is no answer. */
  readonly mayHaveRun: boolean;

  constructor(readonly code: string, message: string, options?: { cause?: unknown; mayHaveRun?: boolean }) {
    super(message, options as undefined);
    this.name = new.target.name;
    this.mayHaveRun = options?.mayHaveRun ?? code === 'UNSURE';
  }
}

/** The daemon cannot be reached. Nothing was done. */
export class Down extends CountdowndError {}

/** The program has closed the client. A call that was under way then `mayHaveRun`. */
export class Closed extends CountdowndError {
  constructor(mayHaveRun = false) {
    super('CLOSED', `the client is closed${mayHaveRun ? ': the command may have run, or not' : ''}`, { mayHaveRun });
  }
}

/** A view, and the decision about the request. */
export type Answer<View> = View & {
  /** Whether this host alone accepted it, as the fleet's servers cannot be reached. */
  degraded: boolean;
} & (
  /** Do it. */
  | { decision: 'accepted'; accepted: true; repeated: false; refused: false }
  /** It was accepted before, with this token. */
  | { decision: 'repeated'; accepted: false; repeated: true; refused: false }
  /** Do not do it: `reason` says why. */
  | { decision: 'refused'; accepted: false; repeated: false; refused: true }
);

/** A page of a listing; `cursor` is that of the next page, or 0 after the last one. */
export type Page<View> = View[] & { cursor: number };

/** @internal Returns a view that JSON.stringify writes without what came twice: data is text there, or
 * base64 in a field such as `payloadBase64` if it is not UTF-8, as in the daemon's own JSON. */
export function asView<View extends object>(view: View): View {
  return Object.defineProperty(view, 'toJSON', { value: jsonOf, configurable: true, writable: true });
}

function jsonOf(this: object): Raw {
  const fields = Object.entries(this).filter(([name]) => name !== 'raw').map(([name, value]): [string, unknown] => {
    if (!Buffer.isBuffer(value)) return [name, value];
    return isUtf8(value) ? [name, value.toString()] : [`${name}Base64`, value.toString('base64')];
  });
  return Object.fromEntries(fields);
}

/** @internal */
export function toAnswer<View extends { raw: Raw }>(view: View): Answer<View> {
  const accepted = truth(view.raw, 'accepted') === true;
  const reason = text(view.raw, 'reason');
  const decision = !accepted ? 'refused' : reason === 'repeated' ? 'repeated' : 'accepted';
  return asView({
    ...view, decision, accepted: decision === 'accepted', repeated: decision === 'repeated',
    refused: decision === 'refused', degraded: reason === 'degraded',
  } as Answer<View>);
}

/** @internal Returns the fields of an answer about one entity or several, with those of the one that
 * refuses, or of the first; and each view. */
export function ofSeveral(raw: Raw): { raw: Raw; views: Raw[] } {
  const views = list(raw, 'views').map(fields);
  const its = views.find((one) => text(one, 'key') === text(raw, 'refused_by')) ?? views[0];
  return its ? { raw: { ...its, ...raw, views }, views } : { raw, views: [raw] };
}

/** @internal */
export function toPage<View>(reply: unknown, view: (raw: Raw) => View): Page<View> {
  const [cursor, views] = reply as [unknown, unknown[]];
  const page = views.map((one) => view(fields(one))) as Page<View>;
  page.cursor = Number(cursor);
  return page;
}

/** @internal Returns a map. */
export function fields(reply: unknown): Raw {
  return reply as Raw;
}

/** @internal */
export function sameBytes(one: unknown, other: unknown): boolean {
  return Buffer.from(one as string).equals(Buffer.from(other as string));
}

/** @internal */
export function numeral(value: number): string {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new TypeError(`a number, not ${String(value)}`);
  return String(value);
}

/** @internal */
export function text(raw: Raw, name: string): string | null {
  const value = raw[name] ?? null;
  return value === null ? null : String(value);
}

/** @internal */
export function data(raw: Raw, name: string): Buffer | null {
  const value = raw[name];
  if (Buffer.isBuffer(value)) return value;
  if (value !== undefined && value !== null) return Buffer.from(String(value));
  const coded = raw[`${name}_base64`];
  return coded === undefined ? null : Buffer.from(String(coded), 'base64');
}

/** @internal */
export function number(raw: Raw, name: string): number | null {
  const value = raw[name] ?? null;
  return value === null ? null : Number(value);
}

/** @internal */
export function truth(raw: Raw, name: string): boolean | null {
  const value = raw[name] ?? null;
  return value === null ? null : value === true || Number(value) === 1;
}

/** @internal */
export function moment(raw: Raw, name: string): Date | null {
  const value = number(raw, name);
  return value === null ? null : new Date(value);
}

/** @internal */
export function list(raw: Raw, name: string): unknown[] {
  return (raw[name] as unknown[] | undefined) ?? [];
}

/** @internal Rounded up, so that nothing is early. */
export function span(value: Duration): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`a duration, not ${value}`);
  return typeof value === 'number' ? `${Math.ceil(value)}ms` : value;
}

/** @internal Milliseconds since 1970, rounded up, so that nothing is early. */
export function milliseconds(value: Moment): string {
  if (typeof value === 'string' && !/T.*(Z|[+-]\d\d:?\d\d)$/i.test(value)) {
    throw new TypeError(`a time is a Date, or ISO 8601 with its time zone, not '${value}'`);
  }
  const time = new Date(value).getTime();
  if (Number.isNaN(time)) throw new TypeError(`'${String(value)}' is not a time`);
  return String(Math.ceil(time));
}

const prefix = randomBytes(8).toString('hex');
let tokens = 0;

/** @internal */
export function newToken(): string {
  tokens += 1;
  return `${prefix}-${tokens}`;
}
