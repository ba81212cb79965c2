// Plays random histories of the timer wheel against its naive model until the time is up.
//
//     wheel-fuzz [SECONDS=20] [FIRST_SEED=0]
//
// Prints how many steps were played. Where the two disagree it prints the seed, which plays the
// same history again, and ends with status 1.

import TimerWheelOracle

#if canImport(Glibc)
  import Glibc
#else
  import Darwin
#endif

let seconds = CommandLine.arguments.count > 1 ? Int64(CommandLine.arguments[1]) ?? 20 : 20
let firstSeed = CommandLine.arguments.count > 2 ? UInt64(CommandLine.arguments[2]) ?? 0 : 0
let clock = ContinuousClock()
let end = clock.now + .seconds(seconds)

var seed = firstSeed
var steps = 0
while clock.now < end {
  for spread in Spread.allCases {
    var history = History(seed: seed, spread: spread)
    do {
      try history.play(turns: 400)
    } catch {
      print(error)
      exit(1)
    }
    steps += history.steps
  }
  seed += 1
}
print(
  "\(steps) steps in \((seed - firstSeed) * UInt64(Spread.allCases.count)) histories, no disagreement"
)
