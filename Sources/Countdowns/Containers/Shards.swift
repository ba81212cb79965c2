/// A dictionary in 256 parts, each of which grows by itself: a dictionary that outgrows its memory
/// moves all its elements in one step, which takes 100 ms when there are millions.
struct Shards<Key: ShardKey, Value>: ~Copyable {
  private var parts = ContiguousArray<[Key: Value]>(repeating: [:], count: 256)

  /// O(1).
  subscript(key: Key) -> Value? {
    _read { yield parts[Int(key.shard)][key] }
    _modify { yield &parts[Int(key.shard)][key] }
  }

  /// O(1).
  mutating func removeValue(forKey key: Key) -> Value? {
    parts[Int(key.shard)].removeValue(forKey: key)
  }

  /// Visits all values.
  func visit(_ body: (Key, Value) -> Void) {
    for part in parts { for (key, value) in part { body(key, value) } }
  }

  /// O(number of parts).
  var count: Int { parts.reduce(0) { $0 + $1.count } }
}

protocol ShardKey: Hashable {
  /// The part that has the key: as good as random, and equal for equal keys.
  var shard: UInt8 { get }
}

extension UInt32: ShardKey {
  var shard: UInt8 { UInt8(truncatingIfNeeded: self) }
}

extension UInt64: ShardKey {
  var shard: UInt8 { UInt8(truncatingIfNeeded: self) }
}
