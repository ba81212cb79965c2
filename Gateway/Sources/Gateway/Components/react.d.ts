// Types for JSX in React 19: /// <reference types="countdownd/components/react" />
import type {ClassAttributes, HTMLAttributes} from 'react'
import type {CountdownButton, CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUD, CountdownHUDAttributes} from './countdown-hud.js'

type Attributes<Element, Own> = Omit<HTMLAttributes<Element>, keyof Own> & ClassAttributes<Element> & Own

export interface Elements {
  'countdown-button': Attributes<CountdownButton, CountdownButtonAttributes>
  'countdown-hud': Attributes<CountdownHUD, CountdownHUDAttributes>
}

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements extends Elements {}
  }
}
