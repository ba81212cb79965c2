// Types for templates: /// <reference types="countdownd/components/vue" />
import type {DefineComponent} from 'vue'
import type {CountdownButtonAttributes} from './countdown-button.js'
import type {CountdownHUDAttributes} from './countdown-hud.js'

declare module 'vue' {
  interface GlobalComponents {
    'countdown-button': DefineComponent<CountdownButtonAttributes>
    'countdown-hud': DefineComponent<CountdownHUDAttributes>
  }
}
