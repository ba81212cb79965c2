import ArgumentParser
import CountdownClient

struct Timer: AsyncParsableCommand, Entity {
  typealias View = TimerView

  static let configuration = CommandConfiguration(
    abstract: "Set timers that fire once or periodically.",
    discussion: """
      Examples:
        countdownctl timer set tea 4m --payload 'tea is ready'
        countdownctl timer set backup 1h --every 24h --clock wall
        countdownctl watch --timer
      """,
    subcommands: commands)

  static let kind = CountdownEvent.Kind.timer
  static let noun = "timer"

  static var columns: [ListColumn<TimerView>] {
    [
      .init("DUE IN", alignRight: true) { $0.timeLeft.humanText },
      .init("EVERY", alignRight: true) { $0.every?.humanText ?? "once" },
      .init("FIRED", alignRight: true) { String($0.fired) },
      .init("MISSED", alignRight: true) { String($0.missed) },
      .owner, .init("PAYLOAD") { $0.payload?.textOrBase64 ?? "" },
    ]
  }

  static func line(_ view: TimerView, style: Style) -> String {
    let every = view.every.map { ", then every \($0.humanText)" } ?? ""
    let refusal = view.accepted == false ? view.reason?.rawValue : nil
    return line(
      view, refusal: refusal, ["due in \(view.timeLeft.humanText)\(every)"], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    if event.name == .fired {
      let missed = event.fields["missed"]?.int ?? 0
      return [
        event.fields["fired"]?.int.map { "× \($0)" }, missed > 0 ? "\(missed) missed" : nil,
        event.fields["payload"]?.textOrBase64, event.lateness,
      ]
    }
    guard let view = event.timer else { return [] }
    return [
      view.state.rawValue,
      view.state == .idle ? nil : "due in \(view.timeLeft.humanText)",
      view.every.map { "every \($0.humanText)" },
    ]
  }
}
