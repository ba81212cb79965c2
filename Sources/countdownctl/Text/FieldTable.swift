import CountdownClient
import Wire

/// All fields of a view, names and values aligned.
enum FieldTable {
  static func text(_ reply: RESPValue, style: Style) -> String {
    guard case .map(let pairs) = reply else { return reply.json }
    let fields = pairs.map { (name: $0.jsonName, value: $0.value) }
    let width = fields.map(\.name.count).max() ?? 0
    return fields.map { name, value in
      style.dim(DisplayWidth.fit(name, width)) + "  " + text(value, of: name, style: style)
    }.joined(separator: "\n")
  }

  private static func text(_ value: RESPValue, of name: String, style: Style) -> String {
    switch value {
    case .null: return style.dim("—")
    case .integer(let number) where name.hasSuffix("_unix_ms"):
      return "\(number)  " + style.dim(WallClock.text(unixMilliseconds: number))
    case .integer(let number) where name.hasSuffix("_ms"):
      return "\(number)  " + style.dim(Duration.milliseconds(number).humanText)
    default:
      guard let text = value.textOrBase64 else { return value.json }
      return name == "state" ? style.state(text, text) : text.printable
    }
  }
}
