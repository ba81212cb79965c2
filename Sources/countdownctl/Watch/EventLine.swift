import CountdownClient
import Glibc
import Wire

/// An event on one line, for pipes and logs: time, channel, name, details.
enum EventLine {
  static func text(_ event: CountdownEvent, time: String, style: Style) -> String {
    let channel = event.kind == .connection ? "-" : event.channel.printable
    return ([time, channel, event.name.rawValue.printable] + details(event, style))
      .joined(separator: "  ")
  }

  /// Returns the line of an event, with the current time.
  static func text(_ event: CountdownEvent, style: Style) -> String {
    let now = WallClock.nowUnixMilliseconds
    let time = WallClock.text(unixMilliseconds: now, format: "%H:%M:%S")
    return text(event, time: time, style: style)
  }

  /// Returns the event as one line of valid JSON without control characters.
  static func json(_ event: CountdownEvent) -> String {
    // Only strings can contain unprintable characters, so escaping them leaves the JSON valid.
    let text = event.json.escapedForJSON
    guard event.kind != .connection, text.hasSuffix("}") else { return text }
    // The kind of entity is in the channel only.
    return text.dropLast() + ",\"channel\":" + RESPValue.text(event.channel).json + "}"
  }

  static let entities: [CountdownEvent.Kind: any Entity.Type] = Dictionary(
    uniqueKeysWithValues: [
      Countdown.self, HUD.self, Timer.self, Throttle.self, Once.self, Gate.self, Debounce.self,
      Scope.self, Navigation.self, Page.self,
    ].map { (entity: any Entity.Type) in (entity.kind, entity) })

  private static func details(_ event: CountdownEvent, _ style: Style) -> [String] {
    guard let entity = entities[event.kind] else { return [] }
    var details = entity.details(event)
    details.append(event.reason.map { "reason: \($0)" })
    if style.showsGenerations, let generation = event.generation, event.name != .tick {
      details.append("generation \(generation)")
    }
    return details.compactMap { $0?.printable }
  }
}

extension CountdownEvent {
  /// The state after the event, as text.
  var state: String? { fields["state"]?.textOrBase64 }

  /// The daemon's lateness, as a detail.
  var lateness: String? { fields["late_us"]?.int.map { "\($0) µs late" } }
}

enum WallClock {
  /// Returns the local time: `2026-05-03 14:02:11.250`.
  static func text(unixMilliseconds: Int, format: String = "%Y-%m-%d %H:%M:%S") -> String {
    let milliseconds = unixMilliseconds - (unixMilliseconds / 1000) * 1000
    var seconds = time_t(unixMilliseconds / 1000)
    var parts = unsafe tm()
    guard milliseconds >= 0, unsafe localtime_r(&seconds, &parts) != nil else { return "" }
    var buffer = [CChar](repeating: 0, count: 64)
    let length = unsafe strftime(&buffer, buffer.count, format, &parts)
    let text = String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let digits = String(milliseconds)
    return text + "." + String(repeating: "0", count: 3 - digits.count) + digits
  }

  /// Returns the local time of day: `14:02:11`.
  static func timeOfDay(unixMilliseconds: Int) -> String {
    String(text(unixMilliseconds: unixMilliseconds, format: "%H:%M:%S").dropLast(4))
  }

  static var nowUnixMilliseconds: Int { nowUnixMicroseconds / 1_000 }

  static var nowUnixMicroseconds: Int {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
  }
}
