// Types for JSX in React 18: /// <reference types="countdownd/components/react-18" />
import type {ClassAttributes, HTMLAttributes} from 'react'
import type {CountdownButton, CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUD, CountdownHUDAttributes} from './countdown-hud.js'

type Attributes<Element, Own> = Omit<HTMLAttributes<Element>, keyof Own> & ClassAttributes<Element> & Own

declare global {
  namespace JSX {
    interface IntrinsicElements {
      'countdown-button': Attributes<CountdownButton, CountdownButtonAttributes>
      'countdown-hud': Attributes<CountdownHUD, CountdownHUDAttributes>
    }
  }
}
