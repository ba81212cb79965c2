// Feeds random and damaged input to code that must withstand it.
//
//     fuzz [SECONDS=20] [SEED=0] [TARGET ...]
//
// Each target begins with inputs that found something before, in its folder of
// Tests/Fuzzing/Corpus, and continues with rising seeds until its share of the time is up. At the
// first failure, fuzz prints the seed and how to repeat it, keeps the input, and exits with status
// 1. A crash or a hang does the same, but ends with its signal.

import Fuzzing
import Glibc

// The same seed must give the same input, so sets need a fixed order of enumeration.
if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  execv("/proc/self/exe", CommandLine.unsafeArgv)
}

let arguments = CommandLine.arguments.dropFirst()
let names = fuzzTargets.map { $0.name }
let numbers = arguments.prefix(2).map { UInt64($0) }
let chosen = arguments.dropFirst(2)
guard numbers.allSatisfy({ $0 != nil }), chosen.allSatisfy(names.contains) else {
  print("usage: fuzz [SECONDS] [SEED] [TARGET ...]; targets: \(names.joined(separator: " "))")
  exit(2)
}
let seconds = (numbers.first ?? nil) ?? 20
let firstSeed = numbers.count > 1 ? numbers[1] ?? 0 : 0
let targets = fuzzTargets.filter { chosen.isEmpty || chosen.contains($0.name) }

let clock = ContinuousClock()
let keptIn = ".build/fuzz"
mkdir(".build", 0o755)
mkdir(keptIn, 0o755)

for target in targets {
  let fuzz: any FuzzTarget
  let cases: [(name: String, input: [UInt8])]
  do {
    fuzz = try target.init()
    cases = try Corpus.cases(of: target.name)
  } catch {
    print("\(target.name): \(error)")
    exit(1)
  }

  func check(_ input: [UInt8], _ what: String, again: String, file: String) {
    let note = "\(target.name): \(what)\nagain: \(again)\nthe input is kept in \(file)\n"
    CrashNote.set(note, input, file)
    do {
      try fuzz.check(input)
    } catch {
      print(error)
      CrashNote.write()
      exit(1)
    }
  }

  for (name, input) in cases {
    check(
      input, "corpus case \(name)", again: "make fuzz FUZZ=\(target.name) SECONDS_OF_FUZZ=0",
      file: "\(keptIn)/\(target.name)-\(name)")
  }
  var seed = firstSeed
  let end = clock.now + .seconds(Double(seconds) / Double(targets.count))
  repeat {
    check(
      fuzz.input(seed: seed), "seed \(seed)",
      again: "make fuzz FUZZ=\(target.name) SEED=\(seed) SECONDS_OF_FUZZ=0",
      file: "\(keptIn)/\(target.name)-\(seed)")
    seed &+= 1
  } while clock.now < end
  CrashNote.clear()
  print(
    "\(target.name): \(cases.count) cases, \(seed &- firstSeed) seeds from \(firstSeed), no failure"
  )
  fflush(nil)
}
