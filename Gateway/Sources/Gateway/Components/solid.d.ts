// Types for Solid: /// <reference types="countdownd/components/solid" />
import type {JSX as Solid} from 'solid-js'
import type {CountdownButton, CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUD, CountdownHUDAttributes} from './countdown-hud.js'

type Listeners<Name extends keyof GlobalEventHandlersEventMap> =
  {[One in Name as `on:${One}`]?: (event: GlobalEventHandlersEventMap[One]) => void}
type Attributes<Element extends HTMLElement, Own, Name extends keyof GlobalEventHandlersEventMap> =
  Omit<Solid.HTMLAttributes<Element>, keyof Own> & Own & Listeners<Name>

declare module 'solid-js' {
  namespace JSX {
    interface IntrinsicElements {
      'countdown-button': Attributes<
        CountdownButton, CountdownButtonAttributes, 'countdown-change' | 'countdown-connection'>
      'countdown-hud': Attributes<
        CountdownHUD, CountdownHUDAttributes, 'hud-change' | 'hud-tap' | 'countdown-connection'>
    }
  }
}
