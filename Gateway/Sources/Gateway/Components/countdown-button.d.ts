import type {Follower, FollowerAttributes, Message} from './countdown-stream.js'

export type CountdownState = 'unknown' | 'ready' | 'counting' | 'paused'

/** What `COUNTDOWN GET` replies; these two fields suffice. */
export interface CountdownView {
  state: string
  remaining_ms?: number | null
  [field: string]: unknown
}

export interface CountdownButtonAttributes extends FollowerAttributes {
  /** The first view, from the server that renders the page; as an attribute, it is JSON. */
  view?: string | CountdownView
  /** Whether a request of the app is under way; as a property, also a promise that ends with it. */
  pending?: boolean | string
  /** The text while it counts. Default: `{label} in {time}`. */
  waiting?: string
  /** What screen readers say while it counts. Default: `{duration} left`. */
  left?: string
  /** What screen readers say at a pause. Default: `Paused, {duration} left`. */
  paused?: string
  /** What screen readers say at the end. Default: `{label} is available`. */
  ready?: string
}

/** `<countdown-button><button>…</button></countdown-button>`: shows a countdown on the app's button. */
export declare class CountdownButton extends Follower {
  /** As in `data-state`. For reading. */
  state: CountdownState
  /** The seconds that it shows. For reading. */
  seconds: number
  get view(): string | null
  set view(value: string | CountdownView | null)
  get pending(): boolean
  set pending(value: boolean | string | PromiseLike<unknown> | null)
  waiting: string | null
  left: string | null
  paused: string | null
  ready: string | null
}

declare global {
  interface HTMLElementTagNameMap {
    'countdown-button': CountdownButton
  }
  interface HTMLElementEventMap {
    'countdown-change': CustomEvent<Message>
  }
}
