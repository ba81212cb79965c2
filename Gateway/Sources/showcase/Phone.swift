import CountdownClient
import ServiceLifecycle

/// The app on the phone. The daemon does everything that takes time, waits, may be refused or
/// happens once; the app only sends the requests of its buttons.
actor Phone: Service {
  static let configuration = """
    policies:
      login:
        ladder: [10s, 20s, 30s]
        windows: [4/3m]
        validity: 2m
        attempts: 3
        on-resend: replace
    hud: {blocking: {mask: black}}

    """

  private static let rowNames = ["row-1", "row-2", "row-3"]

  /// The channels that the page watches, by alias.
  static let channels: [String: String] = {
    let scopes = ["phone", "taps", "table"] + rowNames
    var channels = Dictionary(uniqueKeysWithValues: scopes.map { ($0, "scope:\($0)") })
    channels["login"] = "countdown:login"
    channels["session"] = "gate:session"
    channels["hud"] = "hud:phone"
    channels["nav"] = "nav:phone"
    channels["list"] = "page:list"
    channels["order"] = "once:order"
    return channels
  }()

  private static let animation = Duration.milliseconds(250)

  private let daemon: PrivateDaemon
  private let client: Client
  private var handles: [EventHandle] = []
  /// The pages on the stack, to push them again after the daemon was killed.
  private var pages = ["home"]
  /// The requests for HUDs, for the bars; the daemon's events show when the HUDs appeared.
  private var shows: [RESPValue] = []

  init(_ daemon: PrivateDaemon) {
    self.daemon = daemon
    client = .unconnected(path: daemon.socket, name: "showcase")
  }

  func run() async throws {
    handles = [
      client.onEvent(of: PageView.self, "list", target: self) { phone, event, page in
        guard event.name == .loading else { return }
        Task { await phone.load(page) }
      }
    ]
    // The phone's scope closes with its connection or the daemon. The first event is a snapshot.
    let scope = client.subscription()
    scope.add(.scope("phone"))
    for try await event in scope.events.cancelOnGracefulShutdown() {
      if event.scope?.state == .closed { try? await untilTheDaemonIsBack { try await self.open() } }
    }
    await client.close()
  }

  private func open() async throws {
    guard try await client.scope.get("phone") == nil else { return }
    try await client.scope.open("phone", owner: .connection)
    for page in pages { _ = try await push(page, lasting: nil) }
  }

  /// Returns the state that the page shows besides the events.
  func state() async throws -> RESPValue {
    let stack = try await client.nav.get("phone")
    if let stack { pages = stack.pages }
    let isOpen = try await client.scope.get("phone") != nil
    let scopes = isOpen ? try await client.scope.tree("phone").elements : []
    let why = try await client.countdown.why("login")
    let attempts = try await client.countdown.get("login")?.attemptsLeft
    return object([
      ("stack", stack?.fields.reply ?? .null), ("scopes", .array(scopes.map(\.fields.reply))),
      ("why", why.fields.reply), ("attempts", attempts.map { .integer($0) } ?? .null),
      ("shows", .array(shows)), ("items", .array(items.map { .simpleString($0) })),
      ("orders", .array(orders.map { .simpleString($0) })), ("answer", .simpleString(answer)),
      ("taker", .simpleString(taker)), ("pid", .integer(Int(daemon.life.pid))),
      ("starts", .integer(daemon.life.starts)),
    ])
  }

  /// Performs the action of a button. Returns the view in the daemon's answer, or a text to show.
  func perform(_ action: String, _ input: [String: String]) async throws -> RESPValue? {
    let page = input["page"] ?? ""
    switch action {
    case "push": return try await push(page, lasting: Self.animation)
    case "pop": return try await pop()
    case "swipe", "progress", "finish", "cancel": return try await swipe(action, input)
    case "orders": return try await openOrders()
    case "send": return try await sendCode()
    case "verify": return try await verify(input["code"] ?? "")
    case "logout": return try await logOut()
    case "answer": answer = input["value"] ?? answer
    case "retry": return try await client.page.retry("list").fields.reply
    case "refresh": return try await client.page.refresh("list").fields.reply
    case "submit": return try await submit(input["text"] ?? "")
    case "another": try await client.once.cancel("order")
    case "taker": try await handleTaps(at: input["value"] ?? "")
    case "tap-row": return try await tapRow(page)
    case "remove-row": rows.removeAll { $0.key == page }
    case "work": return try await work(milliseconds: Int(input["ms"] ?? "") ?? 0)
    case "stuck": return try await stuck()
    case "upload": return try await upload()
    case "message": return try await message(page, input["text"] ?? "")
    case "tap": return try await tap(inside: input["where"] == "inside")
    default: return say("There is no such button.")
    }
    return nil
  }

  private func say(_ text: String) -> RESPValue { object([("say", .simpleString(text))]) }

  /// Repeats `body` while it fails because the daemon was killed. Its commands are safe to repeat.
  private func untilTheDaemonIsBack(_ body: () async throws -> Void) async throws {
    while true {
      do {
        return try await body()
      } catch let error as CountdownClientError where error.isAway {
        try await Task.sleep(for: .milliseconds(50))
      }
    }
  }

  // MARK: The stack

  private func push(_ page: String, lasting time: Duration?) async throws -> RESPValue {
    let duration = time.map { TransitionDuration.lasting($0) }
    let view =
      switch page {
      case "login", "modal":
        try await client.nav.present("phone", page: page, duration: duration, parent: "phone")
      case "list":
        try await client.nav.push(
          "phone", page: page, duration: duration, parent: "phone", loads: true,
          timeout: .seconds(4), screen: "phone", grace: .milliseconds(300), min: .seconds(1))
      default:
        try await client.nav.push(
          "phone", page: page, edge: page == "edge" ? 24 : nil, pop: page != "locked",
          duration: duration, parent: "phone")
      }
    guard page == "taps", view.decision == .accepted else { return view.fields.reply }
    // After a restart of the daemon, the scopes of the objects come back by themselves.
    if time == nil, table != nil {
      try await handleTaps(at: taker)
    } else {
      try await openTable()
    }
    return view.fields.reply
  }

  private func pop() async throws -> RESPValue {
    let page = try await client.nav.get("phone")?.page
    let view = try await client.nav.pop("phone", duration: .lasting(Self.animation))
    // A user who leaves the login does not want the action that waits for it.
    if page == "login", view.decision == .accepted { try await client.gate.cancel("session") }
    return view.fields.reply
  }

  private func swipe(_ action: String, _ input: [String: String]) async throws -> RESPValue {
    func number(_ name: String) -> Double { Double(input[name] ?? "") ?? 0 }
    let generation = input["generation"].flatMap { Int($0) }
    return switch action {
    case "swipe":
      try await client.nav.swipe("phone", x: number("x"), dx: number("dx")).fields.reply
    case "progress":
      try await client.nav.progress(
        "phone", fraction: number("fraction"), generation: generation
      ).fields.reply
    case "finish":
      try await client.nav.finish("phone", generation: generation).fields.reply
    default: try await client.nav.cancel("phone", generation: generation).fields.reply
    }
  }

  // MARK: The login

  private var code: (generation: Int, text: String)?

  private func openOrders() async throws -> RESPValue {
    let gate = try await client.gate.check("session", action: "orders")
    return try await push(gate.decision == .accepted ? "orders" : "login", lasting: Self.animation)
  }

  private func sendCode() async throws -> RESPValue {
    let countdown = try await client.countdown.start("login", policy: "login")
    guard countdown.decision == .accepted else { return countdown.fields.reply }
    let text = "\(Int.random(in: 100_000...999_999))"
    code = (countdown.generation, text)
    return object([("sms", .simpleString(text))])
  }

  private func verify(_ text: String) async throws -> RESPValue {
    guard let code else { return say("Ask for a code first.") }
    // Count the attempt before comparing the code, so that guessing is limited.
    let attempt = try await client.countdown.attempt("login", generation: code.generation)
    guard attempt.decision == .accepted else { return attempt.fields.reply }
    guard text == code.text else {
      return say("This is not the code. Attempts left: \(attempt.attemptsLeft ?? 0).")
    }
    try await client.countdown.pass("login", generation: code.generation)
    let session = try await client.gate.open("session", ttl: .seconds(600))
    try await client.nav.pop("phone")
    guard let page = session.action else { return say("You are logged in.") }
    _ = try await push(page, lasting: Self.animation)
    try await client.gate.done("session", generation: session.generation)
    return say("You are logged in. What you wanted before runs now.")
  }

  private func logOut() async throws -> RESPValue {
    try await client.gate.close("session")
    return try await pop()
  }

  // MARK: The list

  /// The answer of the list's server: `items`, `nothing`, `error` or `never`.
  private var answer = "items"
  private var items: [String] = []

  private func load(_ page: PageView) async {
    if page.isAnimated {
      record(at: page.now, grace: .milliseconds(300), min: .seconds(1), max: nil)
    }
    let answer = answer
    try? await Task.sleep(for: .milliseconds(1_200))
    // The daemon refuses this if the load is over; then nothing is left to do.
    try? await untilTheDaemonIsBack {
      switch answer {
      case "items":
        items = ["Aarhus", "Lyon", "Porto"].map { "\($0), \(Int.random(in: 5...25)) °C" }
        try await client.page.loaded("list", items: items.count, generation: page.generation)
      case "nothing":
        items = []
        try await client.page.loaded("list", items: 0, generation: page.generation)
      case "error":
        try await client.page.failed(
          "list", message: "The server answered 503.", generation: page.generation)
      default: break
      }
    }
  }

  // MARK: The form

  private var orders: [String] = []

  private func submit(_ text: String) async throws -> RESPValue {
    let once = try await client.once.begin("order", ttl: .seconds(600))
    guard once.decision == .accepted else {
      let result = once.result.map { String(decoding: $0, as: UTF8.self) }
      return say(result.map { "Not sent again: \($0)" } ?? "It is being sent already.")
    }
    // The daemon blocks the screen for a Submit, according to its configuration.
    let request = "/api/Order/Submit"
    try await show("Sending…", min: .milliseconds(500), request: request, durable: true)
    Task {
      try await Task.sleep(for: .milliseconds(1_500))
      let result = "Order \(orders.count + 1): \(text)"
      orders.append(result)
      try await untilTheDaemonIsBack {
        try await client.once.done(
          "order", result: Array(result.utf8), generation: once.generation)
        _ = try await client.hud.pop("phone", request: request)
        _ = try await message("success", "Sent")
      }
    }
    return say("Sending…")
  }

  // MARK: Taps

  /// The scopes of objects on the screen: they close when these are released.
  private var table: ScopeHandle?
  private var rows: [ScopeHandle] = []
  /// The scope that handles taps; `capture` means the phone's scope, on their way down.
  private var taker = "taps"
  private var handler: Task<Void, any Error>?

  private func openTable() async throws {
    (table, rows) = (try await client.openScope("table", parent: "taps"), [])
    for row in Self.rowNames {
      rows.append(try await client.openScope(row, parent: "table"))
    }
    try await handleTaps(at: taker)
  }

  private func handleTaps(at taker: String) async throws {
    self.taker = taker
    let scope = taker == "capture" ? "phone" : taker
    handler?.cancel()
    handler = Task {
      for try await event in client.handle("tap", at: scope, captures: taker == "capture") {
        guard let emission = event.emission else { continue }
        let way = emission.phase == "capture" ? "down" : "up"
        _ = try? await message("info", "\(scope) took the tap on \(emission.target), going \(way)")
      }
    }
  }

  private func tapRow(_ row: String) async throws -> RESPValue {
    let scope = try await client.scope.emit(row, event: "tap")
    return object([
      ("target", .simpleString(row)), ("took", scope.map { .simpleString($0) } ?? .null),
    ])
  }

  // MARK: HUDs

  private func work(milliseconds: Int) async throws -> RESPValue {
    let hud = try await show("Working…", grace: .milliseconds(400), min: .seconds(1))
    Task {
      try await Task.sleep(for: .milliseconds(milliseconds))
      try await client.hud.pop("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  /// Shows a HUD for work that never ends; the HUD does, after its maximum time.
  private func stuck() async throws -> RESPValue {
    try await show("Waiting…", max: .seconds(3)).fields.reply
  }

  private func upload() async throws -> RESPValue {
    let hud = try await show("Uploading…", kind: .progress, min: .seconds(1))
    Task {
      for part in 1...10 {
        try await client.hud.progress(
          "phone", fraction: Double(part) / 10, generation: hud.generation)
        try await Task.sleep(for: .milliseconds(200))
      }
      try await client.hud.pop("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  private func message(_ kind: String, _ text: String) async throws -> RESPValue {
    try await show(text, kind: HUDView.Kind(rawValue: kind), min: .milliseconds(500)).fields.reply
  }

  private func tap(inside: Bool) async throws -> RESPValue {
    guard let hud = try await client.hud.tap("phone", inside: inside) else { return .null }
    // The daemon dismisses a HUD after a tap outside; here, a tap on a message does so, too.
    if inside, hud.holds.isEmpty {
      try await client.hud.dismiss("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  @discardableResult
  private func show(
    _ status: String, kind: HUDView.Kind? = nil, grace: Duration? = nil, min: Duration? = nil,
    max: Duration? = nil, request: String? = nil, durable: Bool = false
  ) async throws -> HUDView {
    let hud = try await client.hud.show(
      "phone", kind: kind, status: status, grace: grace, min: min, max: max, request: request,
      durable: durable)
    record(at: hud.now, grace: grace, min: min, max: max)
    return hud
  }

  private func record(at time: Date?, grace: Duration?, min: Duration?, max: Duration?) {
    func milliseconds(_ duration: Duration?) -> RESPValue {
      .integer(Int((duration ?? .zero) / .milliseconds(1)))
    }
    let now = Int(((time?.timeIntervalSince1970 ?? 0) * 1_000).rounded())
    shows.append(
      object([
        ("at", .integer(now)), ("grace", milliseconds(grace)), ("min", milliseconds(min)),
        ("max", milliseconds(max)),
      ]))
    shows = shows.suffix(8)
  }
}

extension CountdownClientError {
  /// Whether the daemon is down, or still loading its state.
  var isAway: Bool {
    switch self {
    case .daemonNotRunning, .connectionFailed, .connectionClosed, .unsure, .server(.loading, _):
      true
    default: false
    }
  }
}
