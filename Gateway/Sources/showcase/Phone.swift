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

  /// The channels that the page watches, by alias.
  static let channels: [String: String] = {
    let scopes = ["phone", "taps", "table"] + Row.names
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
  private let client: CountdownClient
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
    scope.add("scope:phone")
    for try await event in scope.events.cancelOnGracefulShutdown() {
      if event.scope?.state == .closed { try? await untilTheDaemonIsBack { try await self.open() } }
    }
    await client.close()
  }

  private func open() async throws {
    guard try await client.scope("phone") == nil else { return }
    _ = try await client.scope(for: self, id: "phone")
    for page in pages { _ = try await push(page, lasting: nil) }
  }

  /// Returns the state that the page shows besides the events.
  func state() async throws -> RESPValue {
    let stack = try await client.stack("phone")
    if let stack { pages = stack.pages }
    let scopes = try await client.scope("phone") == nil ? [] : client.scopeTree("phone").elements
    let why = try await client.explainCountdown("login")
    let attempts = try await client.countdown("login")?.attemptsLeft
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
    case "retry": return try await client.retryPage("list").fields.reply
    case "refresh": return try await client.refreshPage("list").fields.reply
    case "submit": return try await submit(input["text"] ?? "")
    case "another": try await client.cancelOnce("order")
    case "taker": try await handleTaps(at: input["value"] ?? "")
    case "tap-row": return try await tapRow(page)
    case "remove-row": rows.removeAll { $0.name == page }
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
        try await client.presentPage(page, on: "phone", duration: duration, parent: "phone")
      case "list":
        try await client.pushPage(
          page, on: "phone", duration: duration, parent: "phone",
          load: .init(
            timeout: .seconds(4), screen: "phone", grace: .milliseconds(300), minimum: .seconds(1)))
      default:
        try await client.pushPage(
          page, on: "phone", edge: page == "edge" ? 24 : nil, canBeSwipedAway: page != "locked",
          duration: duration, parent: "phone")
      }
    if page == "taps", view.accepted == true { try await openTable() }
    return view.fields.reply
  }

  private func pop() async throws -> RESPValue {
    let page = try await client.stack("phone")?.page
    let view = try await client.popPage(of: "phone", duration: .lasting(Self.animation))
    // A user who leaves the login does not want the action that waits for it.
    if page == "login", view.accepted == true { try await client.cancelGate("session") }
    return view.fields.reply
  }

  private func swipe(_ action: String, _ input: [String: String]) async throws -> RESPValue {
    func number(_ name: String) -> Double { Double(input[name] ?? "") ?? 0 }
    let generation = input["generation"].flatMap { Int($0) }
    return switch action {
    case "swipe":
      try await client.beginSwipe(on: "phone", x: number("x"), dx: number("dx")).fields.reply
    case "progress":
      try await client.setTransitionProgress(
        on: "phone", fraction: number("fraction"), generation: generation
      ).fields.reply
    case "finish":
      try await client.finishTransition(on: "phone", generation: generation).fields.reply
    default: try await client.cancelTransition(on: "phone", generation: generation).fields.reply
    }
  }

  // MARK: The login

  private var code: (generation: Int, text: String)?

  private func openOrders() async throws -> RESPValue {
    let gate = try await client.checkGate("session", action: "orders")
    return try await push(gate.accepted == true ? "orders" : "login", lasting: Self.animation)
  }

  private func sendCode() async throws -> RESPValue {
    let countdown = try await client.startCountdown("login", policy: "login")
    guard countdown.accepted == true else { return countdown.fields.reply }
    let text = "\(Int.random(in: 100_000...999_999))"
    code = (countdown.generation, text)
    return object([("sms", .simpleString(text))])
  }

  private func verify(_ text: String) async throws -> RESPValue {
    guard let code else { return say("Ask for a code first.") }
    // Count the attempt before comparing the code, so that guessing is limited.
    let attempt = try await client.attemptCountdown("login", generation: code.generation)
    guard attempt.accepted == true else { return attempt.fields.reply }
    guard text == code.text else {
      return say("This is not the code. Attempts left: \(attempt.attemptsLeft ?? 0).")
    }
    try await client.passCountdown("login", generation: code.generation)
    let session = try await client.openGate("session", ttl: .seconds(600))
    try await client.popPage(of: "phone")
    guard let page = session.action else { return say("You are logged in.") }
    _ = try await push(page, lasting: Self.animation)
    try await client.finishGate("session", generation: session.generation)
    return say("You are logged in. What you wanted before runs now.")
  }

  private func logOut() async throws -> RESPValue {
    try await client.closeGate("session")
    return try await pop()
  }

  // MARK: The list

  /// The answer of the list's server: `items`, `nothing`, `error` or `never`.
  private var answer = "items"
  private var items: [String] = []

  private func load(_ page: PageView) async {
    if page.isAnimated {
      record(at: page.nowUnixMS, grace: .milliseconds(300), minimum: .seconds(1), maximum: nil)
    }
    let answer = answer
    try? await Task.sleep(for: .milliseconds(1_200))
    // The daemon refuses this if the load is over; then nothing is left to do.
    try? await untilTheDaemonIsBack {
      switch answer {
      case "items":
        items = ["Aarhus", "Lyon", "Porto"].map { "\($0), \(Int.random(in: 5...25)) °C" }
        try await client.pageLoaded("list", items: items.count, generation: page.generation)
      case "nothing":
        items = []
        try await client.pageLoaded("list", items: 0, generation: page.generation)
      case "error":
        try await client.pageFailed(
          "list", message: "The server answered 503.", generation: page.generation)
      default: break
      }
    }
  }

  // MARK: The form

  private var orders: [String] = []

  private func submit(_ text: String) async throws -> RESPValue {
    let once = try await client.beginOnce("order", ttl: .seconds(600))
    guard once.accepted == true else {
      return say(once.result.map { "Not sent again: \($0)" } ?? "It is being sent already.")
    }
    var options = CountdownClient.HUDOptions()
    options.status = "Sending…"
    options.minimum = .milliseconds(500)
    // The daemon blocks the screen for a Submit, according to its configuration.
    options.request = "/api/Order/Submit"
    options.isDurable = true
    try await show(options)
    Task {
      try await Task.sleep(for: .milliseconds(1_500))
      let result = "Order \(orders.count + 1): \(text)"
      orders.append(result)
      try await untilTheDaemonIsBack {
        try await client.finishOnce(
          "order", result: Array(result.utf8), generation: once.generation)
        _ = try await client.popHUD("phone", request: options.request)
        _ = try await message("success", "Sent")
      }
    }
    return say("Sending…")
  }

  // MARK: Taps

  /// Objects on the screen: their scopes close when they are released.
  private final class Table: Sendable {}
  private final class Row: Sendable {
    static let names = ["row-1", "row-2", "row-3"]
    let name: String
    init(_ name: String) { self.name = name }
  }

  private var table: Table?
  private var rows: [Row] = []
  /// The scope that handles taps; `capture` means the phone's scope, on their way down.
  private var taker = "taps"
  private var handler: Task<Void, any Error>?

  private func openTable() async throws {
    let table = Table()
    _ = try await client.scope(for: table, id: "table", parent: "taps")
    let rows = Row.names.map(Row.init)
    for row in rows { _ = try await client.scope(for: row, id: row.name, parent: "table") }
    (self.table, self.rows) = (table, rows)
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
    let scope = try await client.emit("tap", to: row)
    return object([
      ("target", .simpleString(row)), ("took", scope.map { .simpleString($0) } ?? .null),
    ])
  }

  // MARK: HUDs

  private func work(milliseconds: Int) async throws -> RESPValue {
    var options = CountdownClient.HUDOptions()
    options.status = "Working…"
    options.grace = .milliseconds(400)
    options.minimum = .seconds(1)
    let hud = try await show(options)
    Task {
      try await Task.sleep(for: .milliseconds(milliseconds))
      try await client.popHUD("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  /// Shows a HUD for work that never ends; the HUD does, after its maximum time.
  private func stuck() async throws -> RESPValue {
    var options = CountdownClient.HUDOptions()
    options.status = "Waiting…"
    options.maximum = .seconds(3)
    return try await show(options).fields.reply
  }

  private func upload() async throws -> RESPValue {
    var options = CountdownClient.HUDOptions()
    options.kind = .progress
    options.status = "Uploading…"
    options.minimum = .seconds(1)
    let hud = try await show(options)
    Task {
      for part in 1...10 {
        try await client.setHUDProgress(
          "phone", fraction: Double(part) / 10, generation: hud.generation)
        try await Task.sleep(for: .milliseconds(200))
      }
      try await client.popHUD("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  private func message(_ kind: String, _ text: String) async throws -> RESPValue {
    var options = CountdownClient.HUDOptions()
    options.kind = HUDView.Kind(rawValue: kind)
    options.status = text
    options.minimum = .milliseconds(500)
    return try await show(options).fields.reply
  }

  private func tap(inside: Bool) async throws -> RESPValue {
    let hud = try await client.tapHUD("phone", inside: inside)
    // The daemon dismisses a HUD after a tap outside; here, a tap on a message does so, too.
    if inside, hud.holds.isEmpty {
      try await client.dismissHUD("phone", generation: hud.generation)
    }
    return hud.fields.reply
  }

  @discardableResult
  private func show(_ options: CountdownClient.HUDOptions) async throws -> HUDView {
    let hud = try await client.showHUD("phone", options)
    record(
      at: hud.nowUnixMS, grace: options.grace, minimum: options.minimum, maximum: options.maximum)
    return hud
  }

  private func record(at time: Int?, grace: Duration?, minimum: Duration?, maximum: Duration?) {
    func milliseconds(_ duration: Duration?) -> RESPValue {
      .integer(Int((duration ?? .zero) / .milliseconds(1)))
    }
    shows.append(
      object([
        ("at", .integer(time ?? 0)), ("grace", milliseconds(grace)), ("min", milliseconds(minimum)),
        ("max", milliseconds(maximum)),
      ]))
    shows = shows.suffix(8)
  }
}

extension CountdownClientError {
  /// Whether the daemon is down, or still loading its state.
  var isAway: Bool {
    switch self {
    case .daemonNotRunning, .connectionFailed, .connectionClosed, .server("LOADING", _): true
    default: false
    }
  }
}
