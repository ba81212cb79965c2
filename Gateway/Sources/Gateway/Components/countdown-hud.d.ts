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

export interface CountdownHUDAttributes extends FollowerAttributes {
  /** The first view, from the server that renders the page; as an attribute, it is JSON. */
  view?: string | HUDView
  /** The seconds without a connection after which a mask is released. Default: 30. */
  patience?: string | number
  /** Whether it covers its container instead of the page. */
  contained?: string | boolean
  /** The names of HUDs without a text. */
  loading?: string
  progress?: string
  info?: string
  success?: string
  error?: string
  /** The text of a mask that was released. */
  lost?: string
}

/** `<countdown-hud>`: shows the HUD of a screen over the page. */
export declare class CountdownHUD extends Follower {
  get view(): string | null
  set view(value: string | HUDView | null)
  get patience(): string | null
  set patience(value: string | number | null)
  get contained(): boolean
  set contained(value: boolean | string | null)
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
  interface HTMLElementEventMap {
    'hud-change': CustomEvent<Message>
    'hud-tap': CustomEvent<{where: 'inside' | 'outside'}>
  }
}
