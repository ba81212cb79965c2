// Plays random histories of the engine, and compares it with naive models.
//
//     simulate [SEED=0] [STEPS=1000000] [engine|fleet|replay]
//
// A history has 2,000 steps, or 500 for a fleet; each history has the next seed. Prints how many
// steps were played. If the engine and a model disagree, prints the seed that repeats the history,
// the step, the last commands on the key and both answers, and exits with status 1. `fleet` plays
// histories of several daemons that share entities on servers, `replay` plays decisions again from
// their journal, and beside them with a shadow.

import Glibc
import Simulation

// The same seed must give the same history, so sets need a fixed order of enumeration.
if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  execv("/proc/self/exe", CommandLine.unsafeArgv)
}

func number<T: FixedWidthInteger>(_ index: Int, _ what: String, else other: T) -> T {
  guard CommandLine.arguments.count > index else { return other }
  if let number = T(CommandLine.arguments[index]), number >= 0 { return number }
  print(
    "\(what) '\(CommandLine.arguments[index])' is not a number: simulate [SEED] [STEPS] [engine|fleet|replay]"
  )
  exit(2)
}

let firstSeed: UInt64 = number(1, "SEED", else: 0)
let steps: Int = number(2, "STEPS", else: 1_000_000)
let what = CommandLine.arguments.dropFirst(3).first ?? "engine"
let stepsOfHistory = what == "fleet" ? 500 : 2_000

func play(seed: UInt64, steps: Int) throws(Disagreement) {
  switch what {
  case "fleet": try FleetSimulation(seed: seed).play(steps: steps)
  case "replay":
    try ReplaySimulation(seed: seed).play(steps: steps)
    try ShadowSimulation(seed: seed).play(steps: steps)
  default:
    var history = Simulation(seed: seed)
    var interactions = InteractionSimulation(seed: seed)
    var limits = LimitSimulation(seed: seed)
    try history.play(steps: steps)
    try interactions.play(steps: steps)
    try limits.play(steps: steps)
  }
}

var played = 0
var seed = firstSeed
while played < steps {
  let next = min(stepsOfHistory, steps - played)
  do {
    try play(seed: seed, steps: next)
  } catch {
    print(error)
    print("again: make simulate\(what == "engine" ? "" : "-\(what)") SEED=\(seed) STEPS=\(next)")
    exit(1)
  }
  played += next
  seed &+= 1
}
print("\(played) steps in \(seed &- firstSeed) histories from seed \(firstSeed), no disagreement")
