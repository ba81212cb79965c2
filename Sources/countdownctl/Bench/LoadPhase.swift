import Histogram
import NIOCore

/// Latencies in microseconds.
typealias Latencies = Histogram<UInt64>

extension Latencies {
  static var microseconds: Latencies {
    Latencies(highestTrackableValue: 3_600_000_000, numberOfSignificantValueDigits: .three)
  }
}

/// What one worker is to do.
struct LoadPhase: Sendable {
  var keys: Range<Int>
  /// The commands for each key, one after the other.
  var stages: [KeyCommand]
  /// Commands that a connection sends before it waits for their replies.
  var pipeline: Int
  /// Commands a second of this worker; nil: the next batch goes out as soon as the one before has
  /// been answered.
  var rate: Double?

  var commands: Int { keys.count * stages.count }
}

/// What came of it.
struct LoadResult: Sendable {
  struct Stage: Sendable {
    let name: String
    var latencies: Latencies
  }

  var stages: [Stage]
  /// From the first command to the last reply.
  var nanoseconds: Int64

  /// The same of another worker, at the same time.
  mutating func add(_ other: LoadResult) {
    for index in stages.indices { stages[index].latencies.add(other.stages[index].latencies) }
    nanoseconds = max(nanoseconds, other.nanoseconds)
  }
}
