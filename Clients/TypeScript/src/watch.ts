import { CountdowndError, Raw, Word, fields } from './base.js';
import type { Client } from './index.js';
import { Reason, Views, views } from './generated.js';
import { Connection, Failure } from './protocol.js';

/** What happened to an entity. Its name is one of those in the reference of its kind, or `snapshot`:
 * the state when the watch began, or `gap`: events may be missing, so read the state. Its `kind` tells
 * the type of its `view`. */
export type Event<K extends keyof Views = keyof Views> = { [P in K]: EventOf<P> }[K];

/** The kinds of the channels that a pattern such as 'timer:*' matches. */
export type KindOf<P extends string> =
  P extends `${infer K}:${string}` ? K extends keyof Views ? K : keyof Views : keyof Views;

export interface EventOf<K extends keyof Views> {
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

export interface WatchOptions {
  /** The `cursor` of the last event that you have, on this host or another one of its fleet: the
   * events after it come first. */
  since?: string;
  /** Whether to begin with the state of each entity; true if it is not given. */
  snapshots?: boolean;
  /** Ends the watch. */
  signal?: AbortSignal;
}

/** @internal What ends a watch from outside. */
export interface Following {
  isOver: boolean;
  end(): void;
  forget(): void;
}

/** How long to wait before the next attempt to connect, in milliseconds. */
const pauses = [0, 0, 10, 20, 50, 100, 200, 500];
/** How long a connection lasts before the pauses start over, in milliseconds. */
const lasting = 1000;
/** The most events that wait while it reads what it has missed. With more, it connects again. */
const mostArrived = 10_000;

function toEvent(channel: string, raw: Raw, cursor = ''): Event {
  const kind = channel.split(':', 1)[0] as keyof Views;
  const key = raw.key ?? Buffer.from(String(raw.key_base64 ?? ''), 'base64').toString();
  return {
    kind, name: String(raw.event), key: String(key), generation: Number(raw.generation),
    seq: Number(raw.seq), position: String(raw.position ?? raw.seq), cursor,
    reason: (raw.reason as Reason | undefined) ?? null, view: views[kind](raw), raw,
  } as Event;
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

/** What a new subscription sends while the events are read that the watch has missed. */
class Arrived {
  states: Event[] = [];
  events: Event[] = [];

  add(found: Event[]): void {
    for (const event of found) (isState(event) ? this.states : this.events).push(event);
    if (this.events.length > mostArrived) throw new Error('too many events came while it caught up');
  }

  /** Forgets what a page of missed events has too, or something newer than. */
  leaveOut(page: Event[]): void {
    const known = new Set(page.map((event) => event.position));
    const newest = new Map(page.map((event) => [`${event.kind}:${event.key}`, event.seq]));
    let both = -1;
    this.events.forEach((event, index) => { if (known.has(event.position)) both = index; });
    this.events = this.events.filter((event, index) => !known.has(event.position)
      && (index > both || event.name !== 'tick' && event.name !== 'progress'));
    this.states = this.states.filter((event) => (newest.get(`${event.kind}:${event.key}`) ?? 0) <= event.seq);
  }
}

function eventOf(push: unknown[]): Event[] {
  if (push[0] !== 'message' && push[0] !== 'pmessage') return [];
  return [toEvent(String(push[push.length - 2]), JSON.parse(String(push[push.length - 1])) as Raw)];
}

/** One watch: connects, subscribes, reads what was missed in pages, and follows. */
class Subscription {
  place: Place | undefined;
  connection: Connection | undefined;
  private hasBeenLive = false;

  constructor(private readonly client: Client, private readonly patterns: string[], since?: string) {
    if (since !== undefined) this.place = new Place(since);
  }

  private async ask(words: Word[]): Promise<unknown> {
    const reply = await this.client.within(this.connection!.exchange(words), () => this.connection);
    if (reply instanceof Failure) throw this.client.translated(reply);
    return reply;
  }

  async *events(): AsyncGenerator<Event> {
    const connection = await this.client.dial((one) => { this.connection = one; });
    connection.stay();
    const isNew = this.place === undefined;
    this.place ??= new Place(String(await this.ask(['EVENTS', 'CURSOR'])));
    const arrived = new Arrived();
    for (const pattern of this.patterns) {
      // A channel has a snapshot even if there is no such entity.
      const command = /[*?[\\]/.test(pattern) ? 'PSUBSCRIBE' : 'SUBSCRIBE';
      await this.ask([command, pattern]);
    }
    for (let more = !isNew; more; ) {
      const before = this.place.text;
      const reply = fields(await this.ask(['EVENTS', 'SINCE', before, 'SUBSCRIBED']));
      for (const push of connection.takePushes()) arrived.add(eventOf(push));
      const page = (reply.events as [unknown, unknown][]).map(
        ([channel, line]) => toEvent(String(channel), JSON.parse(String(line)) as Raw));
      if (Number(reply.complete) !== 1) yield toEvent('countdown:', gap, before);
      arrived.leaveOut(page);
      const place = this.place;
      this.place = new Place(String(reply.cursor));
      more = Number(reply.more) === 1;
      for (const event of page) yield place.stamp(event);
    }
    this.hasBeenLive = true;
    for (const event of [...arrived.states, ...arrived.events]) yield this.place.stamp(event);
    for (;;) for (const event of eventOf(await connection.nextPush())) yield this.place.stamp(event);
  }

  /** Whether connecting again does not help. */
  isPermanent(error: unknown): boolean {
    if (!(error instanceof CountdowndError)) return false;
    // After a restart all clients connect at once, and some find room only later.
    if (error.code === 'LIMIT') return !this.hasBeenLive;
    return !['DOWN', 'LOADING', 'UNAVAILABLE'].includes(error.code);
  }
}

/** @internal */
export async function* follow(
  client: Client, patterns: string[], options: WatchOptions, following: Following,
): AsyncGenerator<Event> {
  const { signal, snapshots = true } = options;
  const subscription = new Subscription(client, patterns, options.since);
  let wake = (): void => {};
  const ended = new Promise<void>((resolve) => { wake = resolve; });
  following.end = (): void => {
    following.isOver = true;
    subscription.connection?.close(new Error('the watch has ended'));
    wake();
  };
  signal?.addEventListener('abort', following.end);
  if (signal?.aborted) following.end();
  try {
    for (let attempt = 1; !following.isOver; attempt += 1) {
      await Promise.race([ended, pause(pauses[Math.min(attempt, pauses.length) - 1]!)]);
      const began = Date.now();
      try {
        if (!following.isOver) {
          for await (const event of subscription.events()) {
            if (following.isOver) break;
            if (event.name !== 'snapshot' || snapshots) yield event;
          }
        }
      } catch (error) {
        if (!following.isOver && subscription.isPermanent(error)) throw error;
      } finally {
        subscription.connection?.close(new Error('the watch has ended'));
      }
      if (Date.now() - began >= lasting) attempt = 0;
    }
  } finally {
    signal?.removeEventListener('abort', following.end);
    following.end();
    following.forget();
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, milliseconds); });
}
