import Wire

/// Finds out whether hosts have other policies than this one: a server compares digests.
struct FleetPolicies {
  /// The digest that a server last compared.
  fileprivate var last: [UInt8] = []
  /// Whether another host has other policies.
  fileprivate(set) var differ = false
}

extension Fleet {
  /// A digest of what CONFIG GET prints of the policies: equal on hosts with equal policies,
  /// whichever build they run.
  private var policiesDigest: [UInt8] {
    let policies = dispatcher.host.configuration.filter {
      $0.name.hasPrefix("policies.") || $0.name.hasPrefix("throttles.")
    }
    let text = policies.map { "\($0.name) \($0.value)\n" }.joined()
    let digest = SipHash(key: (0, 0))(text.utf8.span, compression: 2, finalization: 4)
    return Array(String(digest, radix: 16).utf8)
  }

  /// A daemon that has just started, or has new policies, sets the digest for all others.
  func setPolicies(of opening: inout FleetOpening) {
    opening.policies = policiesDigest
    opening.setsPolicies = opening.policies != policies.last
    policies.last = opening.policies
  }

  func compare(_ digest: [UInt8]) {
    guard !digest.isEmpty else { return }
    let differ = digest != policies.last
    if differ, !policies.differ { dispatcher.host.note(.fleet(.policiesDiffer)) }
    policies.differ = differ
  }
}
