// <CountdownButton alias="resend"><button>Send code</button></CountdownButton>, in React 18 and 19.
//
// React 18 writes properties of elements as text. Here, each one does what its type says.
import {createElement, forwardRef, useEffect, useImperativeHandle, useRef} from 'react'
import {asAttribute} from './countdown-stream.js'

function wrap(tag, load, events) {
  const Wrapper = ({children, className, ...props}, outer) => {
    const ref = useRef(null)
    const last = useRef({})
    useImperativeHandle(outer, () => ref.current, [])
    const attributes = {}, listeners = {}, own = {}
    for (const [name, value] of Object.entries(props)) {
      if (events[name]) listeners[events[name]] = value
      else if (name === 'ticket' && typeof value === 'function' || name === 'pending' && value?.then) {
        own[name] = value
      } else if (name.startsWith('on') || name === 'style') attributes[name] = value
      else if (value != null && value !== false) attributes[name] = asAttribute(value)
    }
    // A server's page is there before the element changes it.
    useEffect(() => { load() }, [])
    useEffect(() => {
      const element = ref.current
      for (const name of Object.keys(last.current)) if (!(name in own)) element[name] = props[name] ?? null
      for (const name of Object.keys(own)) if (own[name] !== last.current[name]) element[name] = own[name]
      last.current = own
    })
    useEffect(() => {
      const element = ref.current
      const all = Object.entries(listeners).filter(([, listener]) => listener)
      for (const one of all) element.addEventListener(...one)
      return () => { for (const one of all) element.removeEventListener(...one) }
    })
    return createElement(tag, {...attributes, class: className, ref}, children)
  }
  Wrapper.displayName = tag
  return forwardRef(Wrapper)
}

const connection = {onCountdownConnection: 'countdown-connection'}

export const CountdownButton = wrap('countdown-button', () => import('./countdown-button.js'),
  {onCountdownChange: 'countdown-change', ...connection})
export const CountdownHUD = wrap('countdown-hud', () => import('./countdown-hud.js'),
  {onHudChange: 'hud-change', onHudTap: 'hud-tap', ...connection})
