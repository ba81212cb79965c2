import Wire

/// The arguments of HUD SHOW, beyond the screen.
private struct ShowRequest {
  var presentation: Presentation.Request
  var level = Level.normal
  var owner = Owner.none
  var mask: Presentation.Mask?
  var url: [UInt8]?

  init(_ call: Call) { presentation = call.engine.settings.presentation }
}

/// The HUD that a command addresses, and what it changes.
private struct HUDChange {
  var target = HUDTarget()
  var fraction: Double?
  var status: [UInt8]?
  var delay: Interval?
  var url: [UInt8]?
  var isInside = false
}

let hudCommands: [CommandSpec] = [
  CommandSpec(
    "HUD", "SHOW", [HUDKind.key],
    [
      .choice("KIND", "What the HUD shows.", default: "loading", { $0.presentation.kind = $1 }),
      .text("STATUS", "s", "The text.", { $0.presentation.status = $1 }, atMost: TextLimits.status),
      .duration(
        "GRACE", "Shows it only if the work takes longer; see EARLY for a dismissal before.",
        default: "hud.grace", { $0.presentation.grace = $1 }),
      Option(
        "MIN", "d", .duration(),
        "Shows it at least this long; an earlier dismissal is held until then.", default: "hud.min"
      ) { request, reader, _ throws(CommandError) in
        request.presentation.minimum = try reader.duration()
        request.presentation.messageMinimum = request.presentation.minimum
      },
      .duration(
        "MAX",
        "Releases the hold this long after did-appear, or after a later SHOW. The last hold "
          + "ends the HUD with `timed-out`; this wins over MIN.",
        { $0.presentation.maximum = $1 }),
      .duration(
        "FADEIN", "How long the fade-in takes.", default: "hud.fade-in",
        { $0.presentation.fadeIn = $1 }),
      .duration(
        "FADEOUT", "How long the fade-out takes.", default: "hud.fade-out",
        { $0.presentation.fadeOut = $1 }),
      .choice(
        "MINFROM",
        "When MIN begins: at did-appear (`visible`), will-appear (`appear`, as in "
          + "MBProgressHUD), the first SHOW (`request`) or the dismissal (`stop`).",
        default: "visible", { $0.presentation.minimumFrom = $1 }),
      .choice(
        "EARLY",
        "What a dismissal within GRACE does. `skip` never shows the HUD and sends only "
          + "`did-disappear` with end `never-shown`; `show` shows it at once, with its whole "
          + "fade-in, for MIN.",
        default: "skip", { $0.presentation.early = $1 }),
      .choice(
        "MASK",
        "How it covers the screen. Without it, REQUEST decides.",
        { $0.mask = $1 }),
      .choice(
        "LEVEL",
        "The level, from the lowest to the highest. Levels above `hud.max-level`, or that "
          + "of the screen in `hud.screens`, are refused.", default: "normal",
        { $0.level = $1 }),
      .text(
        "REQUEST", "url",
        "The request that it is shown for. Without MASK it gets `hud.blocking.mask` if "
          + "`hud.blocking` lists its path, else `none`. Only the path from the last `/api/` on "
          + "counts, without a slash at the end.", { $0.url = $1 },
        atMost: TextLimits.url),
      .owner({ $0.owner = $1 }),
      .flag(
        "DURABLE", "Survives restarts with its state and times; not together with an owner.",
        { $0.presentation.isDurable = $1 }),
    ],
    group: .entities(.hud), [.write],
    "Show a HUD, with a grace period and minimum and maximum display times.", .view,
    request: ShowRequest.init
  ) { call, show throws(CommandError) in
    var request = show.presentation
    guard !request.isDurable || show.owner == .none else {
      throw call.problem("a DURABLE HUD has no owner; leave out DURABLE or OWNER")
    }
    if let url = show.url {
      let verdict = call.verdict(url)
      request.path = Array(verdict.path.utf8)
      request.mask = verdict.mask
    }
    if let mask = show.mask { request.mask = mask }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.engine.showHUD(
          key, level: show.level, request, owner: show.owner, by: call.client, at: call.now)
      }, for: call.session.rights)
  },

  hud(
    "PROGRESS", "Set the progress of the work, from 0 to 1.", [.fraction],
    [.text("STATUS", "s", "The text.", { $0.status = $1 }, atMost: TextLimits.status)],
    { call throws(CommandError) in HUDChange(fraction: try call.fraction(call.arguments[3])) },
    { call, key, change throws(EngineError) in
      try call.engine.updateHUD(
        key, change.target, fraction: change.fraction, status: change.status, at: call.now)
    }),

  hud(
    "STATUS", "Change the text of a HUD.",
    [Parameter("s", .text(atMost: TextLimits.status), "The text.")], [],
    { call throws(CommandError) in
      HUDChange(
        status: try call.spec.text(call.arguments[3], "the status", atMost: TextLimits.status))
    },
    { call, key, change throws(EngineError) in
      try call.engine.updateHUD(
        key, change.target, fraction: nil, status: change.status, at: call.now)
    }),

  hud(
    "DISMISS", "Dismiss a HUD, at the earliest when MIN is over.", [],
    [
      .duration(
        "DELAY",
        "Dismisses this generation after that time. A new SHOW cancels it, a later DISMISS "
          + "replaces it.",
        { $0.delay = $1 })
    ]
  ) { call, key, change throws(EngineError) in
    try call.engine.dismissHUD(key, change.target, delay: change.delay, at: call.now)
  },

  hud(
    "POP", "Release one hold; releasing the last one dismisses the HUD.", [],
    [
      .text(
        "REQUEST", "url", "Releases the hold of this request.", { $0.url = $1 },
        atMost: TextLimits.url)
    ]
  ) { call, key, change throws(EngineError) in
    let path = change.url.map { Array(call.verdict($0).path.utf8) }
    return try call.engine.popHUD(key, change.target, path: path, by: call.client, at: call.now)
  },

  hud(
    "TAP", "Report a tap; a tap outside a HUD without a mask dismisses it.", [],
    [.flag("INSIDE", "The tap was inside the HUD.", { $0.isInside = $1 })]
  ) { call, key, change throws(EngineError) in
    try call.engine.tapHUD(key, change.target, inside: change.isInside, at: call.now)
  },

  hud("PAUSE", "Pause the running time of a HUD.") { call, key, change throws(EngineError) in
    try call.engine.pauseHUD(key, change.target, at: call.now)
  },

  hud("RESUME", "Resume a paused HUD.") { call, key, change throws(EngineError) in
    try call.engine.resumeHUD(key, change.target, at: call.now)
  },

  CommandSpec(
    "HUD", "GET", [HUDKind.key],
    [.choice("LEVEL", "The level. Default: the topmost one.", { $0 = $1 })],
    group: .entities(.hud),
    [.readOnly, .fast],
    "Read the front HUD of a screen, or the one on a level.", .viewOrNull,
    into: nil as Level?
  ) { call, level throws(CommandError) in
    call.reply(call.engine.hud(try call.key(), level: level, at: call.now))
  },

  CommandSpec(
    "HUD", "WHY", [HUDKind.key],
    [.choice("LEVEL", "The level. Default: the topmost one.", { $0 = $1 })],
    group: .entities(.hud),
    [.readOnly, .fast],
    "Explain why a HUD is as it is, what it waits for, and who holds it.",
    .value(.record("hud-why", HUDExplanation.fields)),
    into: nil as Level?
  ) { call, level throws(CommandError) in
    let explanation = call.engine.explainHUD(
      try call.key(), level, for: call.session.rights, at: call.now)
    call.session.output.record(explanation, for: call.session.rights)
  },

  CommandSpec(
    "HUD", "MASK", [Parameter("url", .text(atMost: TextLimits.url), "The request.")],
    group: .entities(.hud), [.readOnly, .fast],
    "Try out which mask a request gets, and by which rule, without showing anything.",
    .value(.record("hud-mask", BlockingRules.Verdict.fields))
  ) { call throws(CommandError) in
    let url = try call.spec.text(call.arguments[2], "the URL", atMost: TextLimits.url)
    call.session.output.record(call.verdict(url), for: call.session.rights)
  },

  .list(HUDKind.self, "List screens with their front HUDs, page by page."),
]

extension BlockingRules.Verdict: FieldRecord {
  package static var blank: Self { BlockingRules().verdict("") }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("request", path, .text(), "The path of the request.")
    writer.choice("mask", mask, "The mask that it gets.")
    writer.field("rule", rule, .text().orNull, "The rule that blocks it; null if none does.")
  }
}

extension Call {
  /// Returns the decision of the blocking rules on a URL.
  fileprivate func verdict(_ url: [UInt8]) -> BlockingRules.Verdict {
    dispatcher.engine.settings.blocking.verdict(String(decoding: url, as: UTF8.self))
  }
}

/// Returns a command that changes the presentation on a level.
private func hud(
  _ name: String, _ summary: String, _ more: [Parameter] = [], _ options: [Option<HUDChange>] = [],
  _ request: @escaping @Sendable (Call) throws(CommandError) -> HUDChange = { _ in HUDChange() },
  _ body: @escaping @Sendable (Call, Span<UInt8>, HUDChange) throws(EngineError) -> HUDView?
) -> CommandSpec {
  .call(
    HUDKind.self, name, more,
    options + [
      .choice("LEVEL", "The level. Default: the topmost one.", { $0.target.level = $1 }),
      .generation({ $0.target.generation = $1 }),
    ], summary, request: request, body, reply: .init(.viewOrNull) { $0.reply($1) })
}
