import CountdownStore
import Countdowns

extension StoreBatch {
  /// An entity of the engine, by its kind and its place in the table of that.
  typealias Entity = (kind: EntityKind, index: UInt32)

  /// Those that are stored anew.
  var changed: [Entity] {
    countdowns.current.map { (.countdown, $0.index) } + timers.current.map { (.timer, $0.index) }
      + huds.current.map { (.hud, $0.index) }
      + guards.current.map { ($0.state.kind.entityKind, $0.place) }
  }

  /// Those that are stored no more.
  var ended: [Entity] {
    countdowns.gone.map { (.countdown, $0) } + timers.gone.map { (.timer, $0) }
      + huds.gone.map { (.hud, $0) }
      + guards.gone.map {
        let (kind, place) = GuardRecord.place(of: $0)
        return (kind.entityKind, place)
      }
  }
}
