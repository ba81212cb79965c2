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
  func number(_ name: String) -> Double? { values[name].flatMap { Double($0) } }

  subscript(name: String) -> String? { values[name] }

  /// Returns the fields of the figures whose names begin with a prefix, by the rest of the name.
  func records(_ prefix: String) -> [String: [String: String]] {
    let found = values.filter { $0.key.hasPrefix(prefix) }.map {
      (String($0.key.dropFirst(prefix.count)), Self.fields($0.value))
    }
    return Dictionary(uniqueKeysWithValues: found)
  }

  /// Parses `name=value,…`. An error comes last and may contain commas.
  static func fields(_ text: String) -> [String: String] {
    var fields: [String: String] = [:]
    var rest = text[...]
    while let equals = rest.firstIndex(of: "=") {
      let name = String(rest[..<equals])
      rest = rest[rest.index(after: equals)...]
      let end = name == "error" ? rest.endIndex : rest.firstIndex(of: ",") ?? rest.endIndex
      fields[name] = String(rest[..<end])
      rest = rest[end...].dropFirst()
    }
    return fields
  }

  /// The daemon's processor time in user mode and in the kernel, in seconds.
  var processorSeconds: (user: Double, system: Double)? {
    guard let user = number("used_cpu_user"), let system = number("used_cpu_sys") else {
      return nil
    }
    return (user, system)
  }

  /// Returns the increase of a counter since `then`; nil if a reply lacks it.
  func rise(_ name: String, since then: ServerFacts) -> Int? {
    guard let now = integer(name), let before = then.integer(name) else { return nil }
    return now - before
  }
}
