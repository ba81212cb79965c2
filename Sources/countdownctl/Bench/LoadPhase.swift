import Histogram
import NIOCore

/// Latencies in microseconds.
typealias Latencies = Histogram<UInt64>

extension Latencies {
  static var microseconds: Latencies {
    Latencies(highestTrackableValue: 3_600_000_000, numberOfSignificantValueDigits: .three)
  }
}

/// The work of one worker.
struct LoadPhase: Sendable {
  var keys: Range<Int>
  /// The commands for each key, one after the other.
  var stages: [KeyCommand]
  /// The number of commands that a connection sends before it waits for their replies.
  var pipeline: Int
  /// Commands per second of this worker; nil: a connection sends its next batch as soon as the one
  /// before has been answered.
  var rate: Double?

  var commands: Int { keys.count * stages.count }
}

/// The result of a phase.
struct LoadResult: Sendable {
  struct Stage: Sendable {
    let name: String
    var latencies: Latencies
  }

  var stages: [Stage]
  /// The time from the first command to the last reply.
  var nanoseconds: Int64

  /// Adds the result of another worker that ran at the same time.
  mutating func add(_ other: LoadResult) {
    for index in stages.indices { stages[index].latencies.add(other.stages[index].latencies) }
    nanoseconds = max(nanoseconds, other.nanoseconds)
  }
}
