// Types for JSX in React 18: /// <reference types="countdownd/components/react-18" />
import type {ClassAttributes, HTMLAttributes} from 'react'
import type {CountdownButton, CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUD, CountdownHUDAttributes} from './countdown-hud.js'

// React 18 writes attributes: `class`, and no objects or functions. react-components.js takes all.
type Text<Own> = {[Name in keyof Own]: Extract<Own[Name], string | number | boolean | undefined>}
type Attributes<Element, Own> = Omit<HTMLAttributes<Element>, keyof Own | 'className'>
  & ClassAttributes<Element> & Text<Own> & {class?: string}

declare global {
  namespace JSX {
    interface IntrinsicElements {
      'countdown-button': Attributes<CountdownButton, CountdownButtonAttributes>
      'countdown-hud': Attributes<CountdownHUD, CountdownHUDAttributes>
    }
  }
}
