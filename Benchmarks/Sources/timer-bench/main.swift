import CBenchmarks
import Glibc

// timer-bench PEER WORKLOAD N SEED ROUND - runs one library once; prints a line for each phase.
// timer-bench instructions OPERATION N SEED 0 - for callgrind.sh.
// timer-bench stop PROCESS DEADLINE 0 0 - for internal use: stops a process for a time.

/// The number of timers in the warm-up: enough to bring the code into the caches, but still quick.
let warmUp = 10_000

let arguments = CommandLine.arguments
guard arguments.count == 6, let count = Int(arguments[3]), count > 0,
  let seed = UInt64(arguments[4]), let round = UInt64(arguments[5])
else {
  fail("usage: timer-bench PEER WORKLOAD N SEED ROUND")
}
let peer = arguments[1]
let workload = arguments[2]

func runWheel(ticksPerMillisecond: UInt64) {
  for (count, isQuiet) in [(min(count, warmUp), true), (count, false)] {
    let workloads = WheelWorkloads(
      ticksPerMillisecond: ticksPerMillisecond, count: count, seed: seed + round
    ) { Report(peer: peer, workload: workload, count: count, checksum: $0, isQuiet: isQuiet) }
    workloads.run(workload)
    workloads.free()
    // Otherwise the timers would reuse memory freed by the warm-up, which would not be counted.
    malloc_trim(0)
  }
}

func runRealClock<Peer: RealClockPeer>(_ type: Peer.Type) {
  // The warm-up only runs `cancel`, because expiring takes real time.
  for (count, isQuiet) in [(min(count, warmUp), true), (count, false)] {
    let mix = Mix(count: count, seed: seed + round)
    let report = Report(
      peer: peer, workload: workload, count: count, checksum: mix.checksum, isQuiet: isQuiet)
    let workloads = RealClockWorkloads<Peer>(count: count, mix: mix, report: report)
    workloads.run(isQuiet ? "cancel" : workload)
    malloc_trim(0)
  }
}

switch peer {
case "TimerWheel-1ms": runWheel(ticksPerMillisecond: 1)
case "TimerWheel-1us": runWheel(ticksPerMillisecond: 1_000)
case "TimerQueue": runRealClock(TimerQueuePeer.self)
case "DispatchSourceTimer": runRealClock(DispatchSourcePeer.self)
case "Task.sleep": runRealClock(TaskSleepPeer.self)
case "NIO": runRealClock(NIOPeer.self)
case "stop": stopAnother(process: pid_t(workload)!, until: UInt64(count))
case "instructions": runForInstructions(upTo: workload, count: count, seed: seed)
default: fail("no peer \(peer)")
}
