import type {Follower, FollowerAttributes, Message} from './countdown-stream.js'

export type CountdownState = 'unknown' | 'ready' | 'counting' | 'paused'

/** What `COUNTDOWN GET` replies; these two fields suffice. */
export interface CountdownView {
  state: string
  remaining_ms?: number | null
  [field: string]: unknown
}

// What follows comes from Gateway/components.json.
export interface CountdownButtonAttributes extends FollowerAttributes {
  /** The first view, from the server that renders the page: JSON, or as a property an object. */
  view?: string | CountdownView
  /** A request of the app is under way; as a property, also a promise that ends with it. */
  pending?: string | boolean | PromiseLike<unknown>
  /** The text while it counts. Default: `{label} in {time}`. */
  waiting?: string
  /** For screen readers: at the start, at 30 s and at 10 s. Default: `{duration} left`. */
  left?: string
  /** For screen readers: at a pause. Default: `Paused, {duration} left`. */
  paused?: string
  /** For screen readers: at the end. Default: `{label} is available`. */
  ready?: string
}

/** `<countdown-button>`. Shows a countdown on the app's own button, which cannot be pressed meanwhile. */
export declare class CountdownButton extends Follower {
  /** As in `data-state`, for reading. */
  state: CountdownState
  /** The seconds that it shows, for reading. */
  seconds: number
  get view(): string | null
  set view(value: string | CountdownView | null)
  get pending(): boolean
  set pending(value: string | boolean | PromiseLike<unknown> | null)
  waiting: string | null
  left: string | null
  paused: string | null
  ready: string | null
}

declare global {
  interface HTMLElementTagNameMap {
    'countdown-button': CountdownButton
  }
  interface GlobalEventHandlersEventMap {
    'countdown-change': CustomEvent<Message>
  }
}
