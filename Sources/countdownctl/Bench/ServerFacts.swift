import CountdownClient

/// The reply to INFO at one moment.
struct ServerFacts: Sendable {
  private let values: [String: String]

  /// - Parameter prefix: left out at the beginning of names.
  init(info: String, without prefix: String = "") {
    var values: [String: String] = [:]
    for line in info.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2 { values[String(parts[0].trimmingPrefix(prefix))] = String(parts[1]) }
    }
    self.values = values
  }

  static func ask(_ client: Client) async throws -> ServerFacts {
    ServerFacts(info: try await client.send("INFO").string ?? "")
  }

  /// Returns a figure; nil if the daemon does not report it.
  func integer(_ name: String) -> Int? { values[name].flatMap { Int($0) } }

  subscript(name: String) -> String? { values[name] }

  /// The daemon's processor time in user mode and in the kernel, in seconds.
  var processorSeconds: (user: Double, system: Double)? {
    guard let user = values["used_cpu_user"].flatMap({ Double($0) }),
      let system = values["used_cpu_sys"].flatMap({ Double($0) })
    else { return nil }
    return (user, system)
  }

  /// Returns the increase of a counter since `then`; nil if a reply lacks it.
  func rise(_ name: String, since then: ServerFacts) -> Int? {
    guard let now = integer(name), let before = then.integer(name) else { return nil }
    return now - before
  }
}
