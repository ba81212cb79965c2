/// Why a server refuses what it is asked: the kind of its error. Clients learn the kind alone; the
/// server's own words are for administrators.
package enum FleetRefusal: String, CaseIterable, Sendable {
  case memory, disk, rights, replicas, busy, script, loading, elsewhere, other

  package var text: String {
    switch self {
    case .memory: "its memory is full"
    case .disk: "it cannot store its data on its disk"
    case .rights: "its user for this daemon may not do that"
    case .replicas: "too few replicas follow it"
    case .busy: "a script on it takes too long"
    case .script: "it does not keep the scripts"
    case .loading: "it loads its data"
    case .elsewhere: "it is not the primary at present"
    case .other: "its answer is an error"
    }
  }

  /// Whether commands wait for their time limit: another server may take over, or soon be there.
  var isPassing: Bool { self == .loading || self == .elsewhere }
}
