import type {ForwardRefExoticComponent, HTMLAttributes, RefAttributes} from 'react'
import type * as button from './countdown-button.js'
import type * as hud from './countdown-hud.js'

// The listeners that have these names in React.
interface Names {
  onCountdownChange: 'countdown-change'
  onCountdownConnection: 'countdown-connection'
  onHudChange: 'hud-change'
  onHudTap: 'hud-tap'
}

type Listeners<Name extends keyof Names> =
  {[One in Name]?: (event: GlobalEventHandlersEventMap[Names[One]]) => void}

type Wrapped<Element, Own, Name extends keyof Names> = ForwardRefExoticComponent<
  Omit<HTMLAttributes<Element>, keyof Own> & Own & Listeners<Name> & RefAttributes<Element>>

/** `<countdown-button>`, in React 18 and 19. */
export declare const CountdownButton: Wrapped<
  button.CountdownButton, button.CountdownButtonAttributes, 'onCountdownChange' | 'onCountdownConnection'>

/** `<countdown-hud>`, in React 18 and 19. */
export declare const CountdownHUD: Wrapped<
  hud.CountdownHUD, hud.CountdownHUDAttributes, 'onHudChange' | 'onHudTap' | 'onCountdownConnection'>
