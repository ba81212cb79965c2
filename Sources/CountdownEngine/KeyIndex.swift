/// Finds the index of an entity by the hash of its key: open addressing, linear probing, deletion
/// by shifting back, so that no tombstones pile up.
///
/// The hash is seeded for each process (Swift's `Hasher`, SipHash), so that nobody can choose
/// keys that collide.
struct KeyIndex: ~Copyable {
  private struct Bucket {
    var index: UInt32
    var hash: UInt32
  }

  private static let empty = UInt32.max

  private var buckets: UnsafeMutablePointer<Bucket>
  private var mask: Int
  private(set) var count = 0

  init() {
    mask = 15
    buckets = Self.allocate(16)
  }

  deinit { buckets.deallocate() }

  static func hash(_ key: UnsafeRawBufferPointer) -> UInt32 {
    var hasher = Hasher()
    hasher.combine(bytes: key)
    return UInt32(truncatingIfNeeded: hasher.finalize())
  }

  func find(hash: UInt32, where matches: (UInt32) -> Bool) -> UInt32? {
    var position = Int(hash) & mask
    while buckets[position].index != Self.empty {
      if buckets[position].hash == hash, matches(buckets[position].index) {
        return buckets[position].index
      }
      position = (position + 1) & mask
    }
    return nil
  }

  mutating func insert(_ index: UInt32, hash: UInt32) {
    if (count + 1) * 4 > (mask + 1) * 3 { resize(to: (mask + 1) * 2) }
    place(Bucket(index: index, hash: hash))
    count += 1
  }

  /// `index` must be there.
  mutating func remove(_ index: UInt32, hash: UInt32) {
    var hole = Int(hash) & mask
    while buckets[hole].index != index { hole = (hole + 1) & mask }
    // Whatever follows and may not be found past a hole moves back into it.
    var next = (hole + 1) & mask
    while buckets[next].index != Self.empty {
      let home = Int(buckets[next].hash) & mask
      if (next - home) & mask >= (next - hole) & mask {
        buckets[hole] = buckets[next]
        hole = next
      }
      next = (next + 1) & mask
    }
    buckets[hole].index = Self.empty
    count -= 1
    if mask > 255, count * 8 < mask + 1 { resize(to: (mask + 1) / 2) }
  }

  private mutating func resize(to capacity: Int) {
    let old = buckets
    let oldCapacity = mask + 1
    buckets = Self.allocate(capacity)
    mask = capacity - 1
    for position in 0..<oldCapacity where old[position].index != Self.empty {
      place(old[position])
    }
    old.deallocate()
  }

  private func place(_ bucket: Bucket) {
    var position = Int(bucket.hash) & mask
    while buckets[position].index != Self.empty { position = (position + 1) & mask }
    buckets[position] = bucket
  }

  private static func allocate(_ capacity: Int) -> UnsafeMutablePointer<Bucket> {
    let buckets = UnsafeMutablePointer<Bucket>.allocate(capacity: capacity)
    buckets.initialize(repeating: Bucket(index: empty, hash: 0), count: capacity)
    return buckets
  }
}
