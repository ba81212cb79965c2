// Plays random histories of the engine against naive models of what it must do.
//
//     simulate [SEED=0] [STEPS=1000000]
//
// A history has 2,000 steps; each next one has the next seed. Prints how much was played. Where the
// engine and a model disagree it prints the seed that plays that history again, the step, the last
// commands on the key and both answers, and ends with status 1.

import Glibc
import Simulation

// The same seed must be the same history: also sets are enumerated in the same order then.
if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  execv("/proc/self/exe", CommandLine.unsafeArgv)
}

func number<T: FixedWidthInteger>(_ index: Int, _ what: String, else other: T) -> T {
  guard CommandLine.arguments.count > index else { return other }
  if let number = T(CommandLine.arguments[index]), number >= 0 { return number }
  print("\(what) '\(CommandLine.arguments[index])' is not a number: simulate [SEED] [STEPS]")
  exit(2)
}

let firstSeed: UInt64 = number(1, "SEED", else: 0)
let steps: Int = number(2, "STEPS", else: 1_000_000)
let stepsOfHistory = 2_000

var played = 0
var seed = firstSeed
while played < steps {
  var history = Simulation(seed: seed)
  var interactions = InteractionSimulation(seed: seed)
  let next = min(stepsOfHistory, steps - played)
  do {
    try history.play(steps: next)
    try interactions.play(steps: next)
  } catch {
    print(error)
    print("again: make simulate SEED=\(seed) STEPS=\(next)")
    exit(1)
  }
  played += next
  seed &+= 1
}
print("\(played) steps in \(seed &- firstSeed) histories from seed \(firstSeed), no disagreement")
