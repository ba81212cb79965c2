import Memory

extension KeyIndex {
  /// The hash (SipHash) has a random key per process, so that nobody can choose keys that collide.
  static func hash(_ key: Span<UInt8>) -> Hash {
    Hash(truncatingIfNeeded: SipHash.ofProcess(key))
  }
}
