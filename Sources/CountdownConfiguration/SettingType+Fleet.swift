import Countdowns
import Wire

extension SettingType where Value == String {
  static var fleetName: SettingType {
    SettingType(
      allowed: "1 to 64 of letters, digits, '_', '.' and '-'",
      parse: { SendPolicy.isName($0) ? $0 : nil }, show: { $0 })
  }
}

extension SettingType where Value == String? {
  static var username: SettingType {
    optional("at most 128 letters, digits, '_', '.', '@', ':' and '-'") { text in
      text.utf8.count <= 128
        && text.utf8.allSatisfy { ($0 as UInt8).isLetterOrDigit || "_.@:-".utf8.contains($0) }
    }
  }

  static var optionalPath: SettingType {
    optional("an absolute path of at most 1024 bytes, or nothing") {
      SettingType<String>.isPath($0, limit: 1024)
    }
  }

  /// A text; empty for none.
  private static func optional(
    _ allowed: String, _ isAllowed: @escaping @Sendable (String) -> Bool
  ) -> SettingType {
    SettingType(
      allowed: allowed,
      parse: { text in text.isEmpty ? .some(nil) : isAllowed(text) ? .some(text) : nil },
      show: { $0 ?? "" })
  }
}

extension SettingType where Value == FleetSettings.Replicas {
  static var replicas: SettingType {
    SettingType(
      schema: [.textOrInteger], allowed: "all, or an integer from 0 to 5",
      parse: { text in
        if text == "all" { return .all }
        return wholeNumber(text).flatMap { (0...5).contains($0) ? .count($0) : nil }
      },
      show: { if case .count(let count) = $0 { "\(count)" } else { "all" } })
  }
}

extension SettingType where Value == [FleetSettings.Node] {
  static var nodes: SettingType {
    list(of: "HOST:PORT, such as redis1:6379 or [::1]:6379", \.text) { node($0) }
  }

  private static func node(_ text: String) -> FleetSettings.Node? {
    guard let colon = text.lastIndex(of: ":"),
      let port = wholeNumber(String(text[text.index(after: colon)...])), (1...65_535).contains(port)
    else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
      guard host.utf8.allSatisfy({ ($0 as UInt8).isHexadecimal || ":.%".utf8.contains($0) }) else {
        return nil
      }
    } else if !host.utf8.allSatisfy({ ($0 as UInt8).isLetterOrDigit || "-._".utf8.contains($0) }) {
      return nil
    }
    return (1...253).contains(host.utf8.count)
      ? FleetSettings.Node(host: String(host), port: port) : nil
  }
}

extension UInt8 {
  fileprivate var isHexadecimal: Bool {
    isDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self | 0x20)
  }

  fileprivate var isLetterOrDigit: Bool {
    isDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20)
  }

  private var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}

extension SettingType where Value == Set<EntityKind> {
  /// The kinds that a fleet can share.
  static var sharedKinds: SettingType {
    let possible = EntityKind.independent
    let list = SettingType<[EntityKind]>.someOf(
      "one of " + possible.map { "\($0.name)" }.joined(separator: ", "), { "\($0.name)" },
      parse: { text in possible.first { "\($0.name)" == text } })
    return SettingType(
      schema: list.schema, read: { list.read(nil, $1).map { Set($0) } },
      list: { kinds in list.list(possible.filter(kinds.contains)) })
  }
}
