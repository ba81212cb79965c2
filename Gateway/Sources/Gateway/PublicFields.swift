import CountdownClient

/// The fields of views and events that pages may see, by kind. Whatever is not here stays inside:
/// keys, owners, addresses, what apps store for themselves, and fields that are new in the daemon.
///
/// Tests/Integration/test_schema.py compares the lists with the daemon's schema, and
/// scripts/clients/openapi.py makes the OpenAPI document from both.
enum PublicFields {
  private static let ofEvents = """
    event generation seq position due_unix_ms late_us reason
    """

  /// A field of a record in a list is named after the list: `holds.kind`.
  private static let lists = [
    "countdown": """
    state accepted remaining remaining_ms deadline_unix_ms now_unix_ms title retry_after_ms count
    every_ms sends sends_left expires_in_ms attempts_left guesses_left
    """,
    "hud": """
    state level kind status mask fraction leases dismissing paused remaining_ms deadline_unix_ms
    now_unix_ms end durable superseded_generation holds holds.generation holds.kind holds.status
    holds.mask holds.fraction holds.grace_ms holds.max_ms holds.durable
    """,
    "timer": """
    state accepted remaining_ms deadline_unix_ms now_unix_ms every_ms clock late fired missed
    """,
    "throttle": """
    state accepted limit remaining retry_after_ms reset_after_ms now_unix_ms rate_count rate_ms
    """,
    "once": """
    state accepted remaining_ms deadline_unix_ms now_unix_ms lease_ms
    """,
    "gate": """
    state accepted action taken remaining_ms deadline_unix_ms now_unix_ms
    """,
    "debounce": """
    state accepted calls remaining_ms deadline_unix_ms now_unix_ms quiet_ms max_wait_ms leading
    edges spacing_ms
    """,
    "scope": """
    state depth children owned handlers ttl_ms remaining_ms deadline_unix_ms now_unix_ms
    """,
    "nav": """
    state accepted page depth pages bar transition fraction remaining_ms deadline_unix_ms
    now_unix_ms first last style bar_changed
    """,
    "page": """
    state accepted animated visible items message remaining_ms deadline_unix_ms now_unix_ms
    error_page
    """,
  ]

  private static let sets = lists.mapValues { list in
    Set((ofEvents + " " + list).split(whereSeparator: \.isWhitespace).map(String.init))
  }

  /// Returns the names of the fields of a kind; none for a kind that this gateway does not know.
  static func names(of kind: CountdownEvent.Kind) -> Set<String> { sets[kind.rawValue] ?? [] }
}

extension RESPValue {
  /// Returns the fields of a view or an event that a page may see, with its alias.
  func page(alias: String, of kind: CountdownEvent.Kind, adding more: [Pair] = []) -> RESPValue {
    let fields = Self.visible(pairs ?? [], of: PublicFields.names(of: kind))
    return .map([Pair(.simpleString("alias"), .simpleString(alias))] + fields + more)
  }

  /// - Parameter place: the list whose record has the fields, with a dot.
  private static func visible(
    _ pairs: [Pair], of names: Set<String>, in place: String = ""
  ) -> [Pair] {
    pairs.compactMap { pair in
      guard var name = pair.key.string.map({ place + $0 }) else { return nil }
      if !names.contains(name) {
        // Bytes that are not UTF-8 have a name of their own.
        guard name.hasSuffix("_base64") else { return nil }
        name.removeLast("_base64".count)
        guard names.contains(name) else { return nil }
      }
      return Pair(pair.key, pair.value.visible(names, in: name))
    }
  }

  private func visible(_ names: Set<String>, in name: String) -> RESPValue {
    switch self {
    case .array(let elements): .array(elements.map { $0.visible(names, in: name) })
    case .map(let pairs): .map(Self.visible(pairs, of: names, in: name + "."))
    default: self
    }
  }
}
