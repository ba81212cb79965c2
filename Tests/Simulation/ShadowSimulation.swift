import Countdowns

/// A random history of decisions under policies whose shadows have the same rules: they must accept
/// and refuse the same.
package final class ShadowSimulation {
  private let seed: UInt64
  private let world: SendingWorld

  package init(seed: UInt64) {
    self.seed = seed
    world = SendingWorld(seed: seed, shadows: true)
  }

  package func play(steps: Int) throws(Disagreement) {
    for step in 1...steps {
      world.pass()
      switch world.number(0...499) {
      case 0, 1: world.reload()
      case 2...5: world.disconnect()
      default: world.say(world.command())
      }
      if step % 20 == 0 || step == steps { try compare() }
    }
  }

  private func compare() throws(Disagreement) {
    let info = String(decoding: world.say("INFO stats"), as: UTF8.self)
    let lines = info.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("shadow_p") }
    guard lines.count == 3,
      lines.allSatisfy({ $0.contains(",only_policy=0,only_shadow=0,") })
    else {
      throw Disagreement(
        description: "shadow: seed \(seed): " + lines.joined(separator: "\n") + "\n" + world.history
      )
    }
  }
}
