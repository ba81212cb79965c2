import Wire

/// What HUD SHOW says, beyond the screen.
private struct ShowRequest {
  var presentation: Presentation.Request
  var level = Level.normal
  var owner = Owner.none
  var mask: Presentation.Mask?
  var url: [UInt8]?

  init(_ call: Call) { presentation = call.dispatcher.engine.settings.presentation }
}

/// Which HUD a command is about, and what it changes.
private struct HUDChange {
  var target = HUDTarget()
  var status: [UInt8]?
  var delay: Interval?
  var isInside = false
}

let hudCommands: [CommandSpec] = [
  CommandSpec(
    "HUD", "SHOW", "screen",
    [
      .choice("KIND", \.presentation.kind),
      .text("STATUS", "s", \.presentation.status, atMost: TextLimits.status),
      .duration("GRACE", \.presentation.grace),
      Option("MIN", "d") { request, reader, _ throws(CommandError) in
        request.presentation.minimum = try reader.duration()
        request.presentation.messageMinimum = request.presentation.minimum
      },
      .duration("MAX", \.presentation.maximum),
      .duration("FADEIN", \.presentation.fadeIn), .duration("FADEOUT", \.presentation.fadeOut),
      .choice("MINFROM", \.presentation.minimumFrom), .choice("EARLY", \.presentation.early),
      .choice("MASK", \.mask), .choice("LEVEL", \.level),
      .text("REQUEST", "url", \.url, atMost: TextLimits.url),
      .owner(\.owner), .flag("DURABLE", \.presentation.isDurable),
    ],
    group: .entities(.hud), [.write],
    "Show a HUD, with a grace period and minimum and maximum display times.",
    request: ShowRequest.init
  ) { call, show throws(CommandError) in
    var request = show.presentation
    guard !request.isDurable || show.owner == .none else {
      throw call.problem("a DURABLE HUD has no owner; leave out DURABLE or OWNER")
    }
    let blocking = call.dispatcher.engine.settings.blocking
    let isBlocked = show.url.map { blocking.blocks(String(decoding: $0, as: UTF8.self)) }
    request.mask = show.mask ?? (isBlocked == true ? .custom : .none)
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.showHUD(
          key, level: show.level, request, owner: show.owner, by: call.session.client, at: call.now)
      })
  },

  hud(
    "PROGRESS", "Set the progress of the work, from 0 to 1.", takes: "fraction",
    [.text("STATUS", "s", \.status, atMost: TextLimits.status)]
  ) { call, key, change throws(CommandError) in
    let fraction = try call.fraction(call.arguments[3])
    return try call.run { () throws(EngineError) in
      try call.dispatcher.engine.updateHUD(
        key, change.target, fraction: fraction, status: change.status, at: call.now)
    }
  },

  hud(
    "STATUS", "Change the text of a HUD.", takes: "s"
  ) { call, key, change throws(CommandError) in
    let status = try call.text(call.arguments[3], "the status", atMost: TextLimits.status)
    return try call.run { () throws(EngineError) in
      try call.dispatcher.engine.updateHUD(
        key, change.target, fraction: nil, status: status, at: call.now)
    }
  },

  hud(
    "DISMISS", "Dismiss a HUD, at the earliest when MIN is over.",
    [.duration("DELAY", \.delay)]
  ) { call, key, change throws(CommandError) in
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.dismissHUD(key, change.target, delay: change.delay, at: call.now)
    }
  },

  hud(
    "POP", "Release one hold; releasing the last one dismisses the HUD."
  ) { call, key, change throws(CommandError) in
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.popHUD(key, change.target, by: call.session.client, at: call.now)
    }
  },

  hud(
    "TAP", "Report a tap; a tap outside a HUD without a mask dismisses it.",
    [.flag("INSIDE", \.isInside)]
  ) { call, key, change throws(CommandError) in
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.tapHUD(key, change.target, inside: change.isInside, at: call.now)
    }
  },

  hud("PAUSE", "Pause the running time of a HUD.") { call, key, change throws(CommandError) in
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.pauseHUD(key, change.target, at: call.now)
    }
  },

  hud("RESUME", "Resume a paused HUD.") { call, key, change throws(CommandError) in
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.resumeHUD(key, change.target, at: call.now)
    }
  },

  CommandSpec(
    "HUD", "GET", "screen", [.choice("LEVEL", \.self)], group: .entities(.hud), [.readOnly, .fast],
    "Read the front HUD of a screen, or the one on a level.",
    into: nil as Level?
  ) { call, level throws(CommandError) in
    call.reply(call.dispatcher.engine.hud(try call.key(), level: level, at: call.now))
  },

  .list(HUDKind.self, "List screens with their front HUDs, page by page."),
]

/// A command that changes what is shown on a level.
private func hud(
  _ name: String, _ summary: String, takes parameter: String? = nil,
  _ options: [Option<HUDChange>] = [],
  _ body: @escaping @Sendable (Call, Span<UInt8>, HUDChange) throws(CommandError) -> HUDView?
) -> CommandSpec {
  CommandSpec(
    "HUD", name, parameter.map { "screen \($0)" } ?? "screen",
    options + [.choice("LEVEL", \.target.level), .generation(\.target.generation)],
    group: .entities(.hud), [.write, .fast], summary,
    into: HUDChange()
  ) { call, change throws(CommandError) in
    call.reply(try body(call, try call.key(), change))
  }
}
