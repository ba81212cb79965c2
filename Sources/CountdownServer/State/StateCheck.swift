import CountdownStore
import Countdowns

extension Store {
  /// Looks through the state in a directory that no daemon uses, as one would at its start. Changes nothing of it.
  package static func check(directory: String) throws(StoreError) -> Report {
    // Whether a row makes sense does not depend on what time it is.
    try check(
      directory: directory,
      Sense(
        countdown: { Engine.canBeKey($0.key) && $0.durable(offset: 0) != nil },
        timer: { Engine.canBeKey($0.key) && $0.durable(offset: 0) != nil },
        hud: { Engine.canBeKey($0.key) && $0.durable(offset: 0) != nil },
        guardRecord: { Engine.canBeKey($0.key) && $0.durable(offset: 0) != nil },
        events: { EventTail.makesSense($0.payload) }))
  }
}
