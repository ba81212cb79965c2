/** The addresses of a stream. */
export interface Source {
  gateway: string
  /** Where the app answers with a ticket, or a function that returns one; empty for a cookie. */
  ticket: string | TicketFunction
  credentials?: string
}

export type TicketFunction = () => string | PromiseLike<string>

/** What the gateway sends: a view or an event of an entity, or a message of the stream itself. */
export interface Message {
  /** The name of the channel in the ticket; undefined for messages of the stream itself. */
  alias?: string
  event:
    | 'hello' | 'offline' | 'outage' | 'recovered' | 'gap' | 'end'
    | 'snapshot' | (string & {})
  state?: string
  remaining_ms?: number | null
  /** When the remaining time is over, by `performance.now()`. */
  readonly ends?: number
  /** Whether it is an old event, which a snapshot follows. */
  missed?: boolean
  [field: string]: unknown
}

/** Calls `body` with each message for the alias. Returns a function that stops this. */
export declare function follow(source: Source, alias: string, body: (message: Message) => void): () => void

/** Returns the addresses in an element's attributes. */
export declare function source(element: Element): Source

/** The words of the components by language, then by attribute. */
export declare const words: Record<string, Record<string, string>>

// What follows comes from Gateway/components.json.
export interface FollowerAttributes {
  /** The name of the channel in the ticket; without it, the element follows nothing. */
  alias?: string
  /** Where the app answers with a ticket, empty if it is a cookie of the gateway; as a property, also a function that returns a ticket. Default: `/ticket`. */
  ticket?: string | TicketFunction
  /** `include` sends the app's cookies to a `ticket` of another origin, as in `fetch`. Default: `same-origin`. */
  credentials?: string | RequestCredentials
  /** Its address, with or without a slash at the end. Modules that you host yourself need it. Default: the gateway that serves the module. */
  gateway?: string
}

/** The base of the components. */
export declare class Follower extends HTMLElement {
  alias: string | null
  ticket: string | TicketFunction | null
  credentials: string | null
  gateway: string | null
}

declare global {
  interface GlobalEventHandlersEventMap {
    'countdown-connection': CustomEvent<{isOnline: boolean}>
  }
}
