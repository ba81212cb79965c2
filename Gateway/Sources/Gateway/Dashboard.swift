import CountdownClient
import Hummingbird

/// The page for operators of the daemon. It changes nothing and shows no keys.
struct Dashboard: Sendable {
  private let data: Cached<String>

  init(_ daemon: Daemon) {
    data = Cached { try await Self.read(daemon).json }
  }

  func add(to router: Router<RequestFacts>) {
    let page = Page(
      type: "text/html; charset=utf-8", bytes: PackageResources.dashboard_html,
      contentSecurityPolicy: "default-src 'none'; script-src 'self'; style-src 'self'; "
        + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    let script = Page.script(PackageResources.dashboard_js)
    let style = Page(type: "text/css; charset=utf-8", bytes: PackageResources.dashboard_css)
    router.page("dashboard") { request, _ in page.response(to: request) }
    router.page("dashboard/dashboard.js") { request, _ in script.response(to: request) }
    router.page("dashboard/dashboard.css") { request, _ in style.response(to: request) }
    router.page("dashboard/data") { request, _ in
      if let site = request.headers[.secFetchSite], site != "same-origin" {
        throw Problem(.forbidden, "this is for the dashboard only")
      }
      return Response(
        status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
        body: .init(byteBuffer: ByteBuffer(string: try await data.value)))
    }
  }

  /// The number of events shown, and the number of newest sequence numbers to search for them:
  /// generations use the same sequence.
  private static let newestEvents = 12
  private static let newestNumbers = 100
  /// The maximum number of entities of each kind whose deadlines are read.
  private static let mostEntities = 500
  private static let kindsWithDeadlines = ["COUNTDOWN", "TIMER", "HUD", "ONCE", "DEBOUNCE"]

  private static func read(_ daemon: Daemon) async throws -> RESPValue {
    let metrics = try await daemon.ask(["METRICS"])
    let persistence = try await daemon.ask(["INFO", "persistence"])
    let server = try await daemon.ask(["INFO", "server"])
    var left: [RESPValue] = []
    for kind in kindsWithDeadlines {
      let page = try await daemon.ask([kind, "LIST", "LIMIT", "\(mostEntities)"])
      for view in page.elements?.last?.elements ?? [] {
        if let deadline = view["deadline_unix_ms"]?.int, let now = view["now_unix_ms"]?.int {
          left.append(.integer(deadline - now))
        }
      }
    }
    let last = try await daemon.ask(["EVENTS", "LAST"]).int ?? 0
    let log = try await daemon.ask([
      "EVENTS", "SINCE", "\(max(last - newestNumbers, 0))", "LIMIT", "\(newestNumbers)",
    ])
    let events = (log["events"]?.elements ?? []).suffix(newestEvents).compactMap {
      entry -> RESPValue? in
      guard let pair = entry.elements, pair.count == 2, let channel = pair[0].string,
        let line = pair[1].bytes, let event = try? CountdownEvent(channel: channel, message: line)
      else { return nil }
      return object([
        ("kind", .simpleString(event.kind.rawValue)),
        ("event", .simpleString(event.name.rawValue)),
        ("at_unix_ms", event.fields["now_unix_ms"] ?? event.fields["due_unix_ms"] ?? .null),
      ])
    }
    return object([
      ("metrics", metrics), ("persistence", persistence), ("server", server),
      ("left_ms", .array(left)), ("events", .array(events)),
    ])
  }

  private static func object(_ members: [(String, RESPValue)]) -> RESPValue {
    .map(members.map { .init(.simpleString($0.0), $0.1) })
  }
}
