/// A set of names. Beyond a thousand it has 256 parts, each of which grows by itself: a set that
/// outgrows its memory hashes and moves all its elements in one step.
struct NameSet: Sequence {
  private var parts: [Set<[UInt8]>] = [[]]
  private(set) var count = 0
  private static let divisionThreshold = 1 << 10

  private func part(of name: [UInt8]) -> Int {
    parts.count == 1 ? 0 : Int(SipHash.ofProcess(name.span) & 255)
  }

  func contains(_ name: [UInt8]) -> Bool { parts[part(of: name)].contains(name) }

  /// Inserts a name. Returns false if it was there.
  mutating func insert(_ name: [UInt8]) -> Bool {
    if count == Self.divisionThreshold, parts.count == 1 { divide() }
    guard parts[part(of: name)].insert(name).inserted else { return false }
    count += 1
    return true
  }

  /// Removes a name. Returns false if it was not there.
  mutating func remove(_ name: [UInt8]) -> Bool {
    guard parts[part(of: name)].remove(name) != nil else { return false }
    count -= 1
    return true
  }

  private mutating func divide() {
    let undivided = parts[0]
    parts = Array(repeating: [], count: 256)
    for name in undivided { parts[part(of: name)].insert(name) }
  }

  func makeIterator() -> FlattenSequence<[Set<[UInt8]>]>.Iterator { parts.joined().makeIterator() }
}
