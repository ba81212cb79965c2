import Wire

private let target = "[LEVEL normal|statusbar|alert] [GENERATION g]"

let hudCommands: [CommandSpec] = [
  CommandSpec(
    "HUD", "SHOW",
    "screen [KIND loading|progress|info|success|error] [STATUS s] [GRACE d] [MIN d] [MAX d] "
      + "[FADEIN d] [FADEOUT d] [MINFROM visible|request|stop] [EARLY skip|show] "
      + "[MASK none|clear|black|gradient|custom] [LEVEL normal|statusbar|alert] [REQUEST url] "
      + "[OWNER none|connection|scope:ID] [DURABLE]",
    group: .hud, [.write],
    "Shows a HUD on a screen, not too early, not too short, not too long."
  ) { call throws(CommandError) in
    let settings = call.dispatcher.engine.settings
    var request = settings.presentation
    var level = Level.normal
    var owner = Owner.none
    var mask: Presentation.Mask?
    var url: String?
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "KIND": request.kind = try options.choice()
      case "STATUS": request.status = try options.text(atMost: TextLimits.status)
      case "GRACE": request.grace = try options.duration()
      case "MIN":
        request.minimum = try options.duration()
        request.messageMinimum = request.minimum
      case "MAX": request.maximum = try options.duration()
      case "FADEIN": request.fadeIn = try options.duration()
      case "FADEOUT": request.fadeOut = try options.duration()
      case "MINFROM": request.minimumFrom = try options.choice()
      case "EARLY": request.early = try options.choice()
      case "MASK": mask = try options.choice()
      case "LEVEL": level = try options.choice()
      case "REQUEST":
        url = String(decoding: try options.text(atMost: TextLimits.url), as: UTF8.self)
      case "OWNER": owner = try call.owner(try options.value())
      case "DURABLE": request.isDurable = true
      default: throw options.unknown()
      }
    }
    guard !request.isDurable || owner == .none else {
      throw call.problem("DURABLE is for what outlives its owner; leave out one of them")
    }
    request.mask = mask ?? (url.map(settings.blocking.blocks) == true ? .custom : .none)
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.showHUD(
          key, level: level, request, owner: owner, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "PROGRESS", "screen fraction [STATUS s] \(target)", group: .hud, [.write, .fast],
    "Tells how far the work is, from 0 to 1."
  ) { call throws(CommandError) in
    let fraction = try call.fraction(call.arguments[3])
    let (target, status, _) = try call.hudOptions(from: 4, also: "STATUS")
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.updateHUD(
          target, fraction: fraction, status: status, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "STATUS", "screen s \(target)", group: .hud, [.write, .fast],
    "Changes the text of what is shown."
  ) { call throws(CommandError) in
    let status = try call.text(call.arguments[3], "the status", atMost: TextLimits.status)
    let (target, _, _) = try call.hudOptions(from: 4)
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.updateHUD(target, fraction: nil, status: status, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "DISMISS", "screen [DELAY d] \(target)", group: .hud, [.write, .fast],
    "Ends what is shown, once MIN is over; null if nothing is."
  ) { call throws(CommandError) in
    let (target, _, delay) = try call.hudOptions(from: 3, also: "DELAY")
    call.reply(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.dismissHUD(target, delay: delay, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "POP", "screen \(target)", group: .hud, [.write, .fast],
    "Gives one lease back; the last one dismisses. Null if nothing is shown."
  ) { call throws(CommandError) in
    let (target, _, _) = try call.hudOptions(from: 3)
    call.reply(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.popHUD(target, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "TAP", "screen [INSIDE] \(target)", group: .hud, [.write, .fast],
    "Tells of a tap; outside and without a mask it dismisses."
  ) { call throws(CommandError) in
    var inside = false
    let target = try call.hudTarget(from: 3) { option, _ throws(CommandError) in
      guard option == "INSIDE" else { return false }
      inside = true
      return true
    }
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.tapHUD(target, inside: inside, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "PAUSE", "screen \(target)", group: .hud, [.write, .fast],
    "Stops the time of what is shown."
  ) { call throws(CommandError) in
    let (target, _, _) = try call.hudOptions(from: 3)
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.pauseHUD(target, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "RESUME", "screen \(target)", group: .hud, [.write, .fast],
    "Lets the time of what is shown go on."
  ) { call throws(CommandError) in
    let (target, _, _) = try call.hudOptions(from: 3)
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.resumeHUD(target, at: call.now)
      })
  },

  CommandSpec(
    "HUD", "GET", "screen [LEVEL normal|statusbar|alert]", group: .hud, [.readOnly, .fast],
    "How a screen's front HUD is, or the one on a level; null if there is none."
  ) { call throws(CommandError) in
    var level: Level?
    var options = call.options(from: 3)
    while let option = try options.next() {
      guard option == "LEVEL" else { throw options.unknown() }
      level = try options.choice() as Level
    }
    call.reply(call.dispatcher.engine.hud(try call.key(), level: level, at: call.now))
  },

  CommandSpec(
    "HUD", "LIST", listSyntax, group: .hud, [.readOnly], complexity: "O(LIMIT)",
    "A page of screens with their front HUDs."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listHUDs(query, at: call.now)) { $0.view($1) }
  },
]

extension Call {
  fileprivate func reply(_ view: HUDView?) {
    if let view { session.output.view(view) } else { session.output.null() }
  }

  /// LEVEL and GENERATION, and what `other` knows.
  fileprivate func hudTarget(
    from index: Int,
    _ other: (CommandName, inout OptionReader) throws(CommandError) -> Bool = { _, _ in false }
  ) throws(CommandError) -> HUDTarget {
    var target = HUDTarget(screen: try key())
    var options = options(from: index)
    while let option = try options.next() {
      switch option {
      case "LEVEL": target.level = try options.choice() as Level
      case "GENERATION": target.generation = try options.generation()
      default: guard try other(option, &options) else { throw options.unknown() }
      }
    }
    return target
  }

  fileprivate func hudOptions(
    from index: Int, also allowed: String? = nil
  ) throws(CommandError) -> (HUDTarget, status: [UInt8]?, delay: Interval?) {
    var status: [UInt8]?
    var delay: Interval?
    let target = try hudTarget(from: index) { option, options throws(CommandError) in
      guard option.text == allowed else { return false }
      if option == "STATUS" {
        status = try options.text(atMost: TextLimits.status)
      } else {
        delay = try options.duration()
      }
      return true
    }
    return (target, status, delay)
  }
}
