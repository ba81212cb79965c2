import Testing
import Wire

@testable import Countdowns

@Suite struct SchemaTests {
  let schema = RESPValue.map(DaemonSchema.parts)

  @Test func eachArgumentHasHelp() {
    for spec in CommandTable.all.rows {
      for parameter in spec.parameters {
        let name = "\(spec.fullName) \(parameter.token ?? parameter.name)"
        #expect(!parameter.help.isEmpty, "\(name)")
        #expect(parameter.help.last == "." || parameter.help.last == "`", "\(name)")
      }
    }
  }

  @Test func summariesFitIntoALine() {
    for spec in CommandTable.all.rows { #expect(spec.summary.count <= 80, "\(spec.fullName)") }
  }

  @Test func commandsAboutEntitiesDescribeTheirReplies() {
    for spec in CommandTable.all.rows where spec.group.kind != nil && spec.subcommand != "HELP" {
      if case .special = spec.reply { Issue.record("\(spec.fullName)") }
    }
  }

  @Test func anOptionHasItsTypeRangeAndDefault() {
    let start = schema["commands"]?.elements?.first { $0["name"]?.string == "COUNTDOWN START" }
    let count = start?["arguments"]?.elements?.first { $0["token"]?.string == "COUNT" }
    #expect(count?["type"]?.string == "integer")
    #expect(count?["least"]?.int == 1)
    #expect(count?["most"]?.int == 2_147_483_647)
    #expect(count?["default"]?.string == "countdown.count")
    #expect(count?["required"]?.bool == false)
  }

  @Test func retrySaysWhatALostReplyMeans() {
    func retry(_ name: String) -> String? {
      schema["commands"]?.elements?.first { $0["name"]?.string == name }?["retry"]?.string
    }
    let safe = [
      "COUNTDOWN GET", "COUNTDOWN PASS", "COUNTDOWN REFUND", "ONCE DONE", "EVENTS SINCE", "PING",
    ]
    for name in safe { #expect(retry(name) == "safe", "\(name)") }
    for name in ["COUNTDOWN START", "THROTTLE TAKE"] { #expect(retry(name) == "token", "\(name)") }
    for name in ["TIMER SET", "ONCE CANCEL", "CLOCK ADVANCE", "CLEAR", "MULTI"] {
      #expect(retry(name) == "never", "\(name)")
    }
  }

  @Test func eachKindHasDifferentFieldsAndEvents() {
    for kind in EntityKind.allCases {
      let fields = kind.behavior.fields.map(\.name)
      #expect(Set(fields).count == fields.count, "\(kind)")
      let events = kind.behavior.events.map { "\($0.name)" }
      #expect(Set(events).count == events.count, "\(kind)")
    }
  }
}
