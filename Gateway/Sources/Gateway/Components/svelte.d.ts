// Types for Svelte: /// <reference types="countdownd/components/svelte" />
import type {HTMLAttributes} from 'svelte/elements'
import type {CountdownButton, CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUD, CountdownHUDAttributes} from './countdown-hud.js'

type Listeners<Name extends keyof GlobalEventHandlersEventMap> =
  {[One in Name as `on${One}`]?: (event: GlobalEventHandlersEventMap[One]) => void}
type Attributes<Element extends HTMLElement, Own, Name extends keyof GlobalEventHandlersEventMap> =
  Omit<HTMLAttributes<Element>, keyof Own> & Own & Listeners<Name>

declare module 'svelte/elements' {
  export interface SvelteHTMLElements {
    'countdown-button': Attributes<
      CountdownButton, CountdownButtonAttributes, 'countdown-change' | 'countdown-connection'>
    'countdown-hud': Attributes<
      CountdownHUD, CountdownHUDAttributes, 'hud-change' | 'hud-tap' | 'countdown-connection'>
  }
}
