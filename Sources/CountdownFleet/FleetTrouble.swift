import Countdowns

/// What is wrong with a server of a fleet, in this daemon's words or in the server's own ones.
struct FleetTrouble: Equatable, ExpressibleByStringInterpolation {
  /// The kind of the server's answer, if it refuses something.
  let refusal: FleetRefusal?
  private let subject: String
  private let words: String

  init(stringLiteral text: String) { (refusal, subject, words) = (nil, "", text) }

  /// - Parameters:
  ///   - answer: the text of the server's error.
  ///   - subject: what it is about, before that text.
  init(answer: String, _ subject: String = "") {
    (refusal, self.subject, words) = (FleetRefusal(answer), subject, answer)
  }

  private init(_ refusal: FleetRefusal?, _ subject: String, _ words: String) {
    (self.refusal, self.subject, self.words) = (refusal, subject, words)
  }

  func about(_ what: String) -> FleetTrouble { FleetTrouble(refusal, what + subject, words) }

  /// The text for administrators.
  var text: String { subject + words }
  /// The text for everyone, without the server's own words.
  var publicText: String { subject + (refusal?.text ?? words) }
  func text(forAdmin: Bool) -> String { forAdmin ? text : publicText }
}

extension FleetRefusal {
  /// The kind of a server's error.
  init(_ text: String) {
    switch text.prefix(while: { $0 != " " }) {
    case "OOM": self = .memory
    case "MISCONF": self = .disk
    case "NOAUTH", "NOPERM", "WRONGPASS": self = .rights
    case "NOREPLICAS": self = .replicas
    case "BUSY": self = .busy
    case "NOSCRIPT": self = .script
    case "LOADING": self = .loading
    case "MOVED", "ASK", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "TRYAGAIN", "CROSSSLOT":
      self = .elsewhere
    // So Redis 7.0 reports rights that a script lacks.
    case "ERR" where text.contains("The user executing the script"): self = .rights
    default: self = .other
    }
  }

  /// Whether nothing was done. Else it may have been, at least in part.
  var isCertain: Bool { self != .other }
  /// Whether another server has the partition, or none at present.
  var isElsewhere: Bool { self == .elsewhere || self == .loading }
}
