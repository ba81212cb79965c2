import type {Follower, FollowerAttributes, Message} from './countdown-stream.js'

/** What `HUD GET` replies; these fields suffice. */
export interface HUDView {
  state: 'hidden' | 'waiting' | 'appearing' | 'visible' | 'disappearing'
  mask?: 'none' | 'clear' | 'black' | 'gradient' | 'custom'
  kind?: 'loading' | 'progress' | 'info' | 'success' | 'error'
  status?: string | null
  fraction?: number | null
  level?: string
  [field: string]: unknown
}

// What follows comes from Gateway/components.json.
export interface CountdownHUDAttributes extends FollowerAttributes {
  /** The first view, from the server that renders the page: JSON, or as a property an object. */
  view?: string | HUDView
  /** The seconds without a connection after which a mask is released. Default: `30`. */
  patience?: string | number
  /** Covers its positioned container instead of the page, and makes its siblings inert, also those that come later; `contained="false"` is off. */
  contained?: string | boolean
  /** The name of a HUD of this kind without a text. Default: `Loading`. */
  loading?: string
  /** The name of a HUD of this kind without a text. Default: `Progress`. */
  progress?: string
  /** The name of a HUD of this kind without a text. Default: `Information`. */
  info?: string
  /** The name of a HUD of this kind without a text. Default: `Success`. */
  success?: string
  /** The name of a HUD of this kind without a text. Default: `Error`. */
  error?: string
  /** The text of a mask that was released; a tap hides it. Default: `The connection is lost`. */
  lost?: string
}

/** `<countdown-hud>`. Shows the HUD of a screen over the page. */
export declare class CountdownHUD extends Follower {
  get view(): string | null
  set view(value: string | HUDView | null)
  get patience(): string | null
  set patience(value: string | number | null)
  get contained(): boolean
  set contained(value: string | boolean | null)
  loading: string | null
  progress: string | null
  info: string | null
  success: string | null
  error: string | null
  lost: string | null
}

declare global {
  interface HTMLElementTagNameMap {
    'countdown-hud': CountdownHUD
  }
  interface GlobalEventHandlersEventMap {
    'hud-change': CustomEvent<Message>
    'hud-tap': CustomEvent<{where: 'inside' | 'outside'}>
  }
}
