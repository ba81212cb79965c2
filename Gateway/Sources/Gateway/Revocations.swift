import CountdownClient

/// The users whose earlier tickets are refused, because they have logged out.
///
/// The daemon stores them as timers, so that a restart of the gateway forgets none.
actor Revocations {
  private static let prefix = "countdown-gateway/revoked/"
  /// The time after which no earlier ticket is valid, in seconds.
  private static let life = Ticket.longestLife + 2 * Ticket.tolerance

  private let daemon: Daemon
  /// The times of the revocations by user, in seconds since 1970; nil until they are read.
  private var revoked: [String: Int]?

  init(_ daemon: Daemon) { self.daemon = daemon }

  /// Refuses the tickets that the user has until now.
  func revoke(_ subject: String, now: Int) async throws {
    _ = try await daemon.ask([
      "TIMER", "SET", Self.prefix + subject, "\(Self.life)s", "PAYLOAD", "\(now)",
    ])
    var all = try await known().filter { $0.value > now - Self.life }
    all[subject] = now
    revoked = all
  }

  /// - Throws: `Problem` with the status 401 if the ticket was revoked.
  nonisolated func check(_ ticket: Ticket) async throws {
    guard let subject = ticket.subject, let time = try await known()[subject] else { return }
    // A ticket of the same second may be an earlier one; the page asks for another.
    if ticket.issued ?? 0 <= time { throw Problem.ticket("the ticket was revoked") }
  }

  private func known() async throws -> [String: Int] {
    if let revoked { return revoked }
    var all: [String: Int] = [:]
    var cursor = "0"
    repeat {
      let page = try await daemon.ask([
        "TIMER", "LIST", "MATCH", Self.prefix + "*", "CURSOR", cursor,
      ])
      for view in page.elements?.last?.elements ?? [] {
        guard let key = view["key"]?.string, let time = view["payload"]?.string.flatMap({ Int($0) })
        else { continue }
        all[String(key.dropFirst(Self.prefix.count))] = time
      }
      cursor = page.elements?.first?.string ?? "0"
    } while cursor != "0"
    // Somebody may have been revoked meanwhile.
    revoked = all.merging(revoked ?? [:]) { max($0, $1) }
    return revoked ?? all
  }
}
