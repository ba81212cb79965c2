import Glibc

/// A user or a group: the operator's text, and the numeric ID.
package struct Principal: Hashable, Sendable {
  package let text: String
  package let id: UInt32

  package init(text: String, id: UInt32) {
    self.text = text
    self.id = id
  }
}

extension SettingType where Value == [Principal] {
  static func users(ifEmpty advice: String? = nil) -> SettingType {
    unsafe principals(advice, "a user's name or number that this system knows") { name, buffer in
      var entry = unsafe passwd()
      var found: UnsafeMutablePointer<passwd>?
      let code = unsafe getpwnam_r(name, &entry, buffer.baseAddress!, buffer.count, &found)
      return unsafe (code, found?.pointee.pw_uid)
    }
  }

  static func groups(ifEmpty advice: String? = nil) -> SettingType {
    unsafe principals(advice, "a group's name or number that this system knows") { name, buffer in
      var entry = unsafe group()
      var found: UnsafeMutablePointer<group>?
      let code = unsafe getgrnam_r(name, &entry, buffer.baseAddress!, buffer.count, &found)
      return unsafe (code, found?.pointee.gr_gid)
    }
  }

  private typealias Lookup =
    @Sendable (String, UnsafeMutableBufferPointer<CChar>) -> (code: Int32, id: UInt32?)

  private static func principals(
    _ advice: String?, _ allowed: String, _ lookup: @escaping Lookup
  ) -> SettingType {
    list(of: allowed, ifEmpty: advice, \.text) { text in
      unsafe (number(text) ?? id(of: text, lookup)).map { Principal(text: text, id: $0) }
    }
  }

  /// Parses a numeric ID, except the highest, which means "none" to the system: chown(2).
  private static func number(_ text: String) -> UInt32? {
    wholeNumber(text).flatMap { UInt32(exactly: $0) }.flatMap { $0 == .max ? nil : $0 }
  }

  /// Looks up a name, with larger buffers as needed: a group may have any number of members.
  private static func id(of name: String, _ lookup: Lookup) -> UInt32? {
    guard !name.isEmpty, !name.utf8.contains(0) else { return nil }
    var size = 1 << 12
    while size <= 1 << 22 {
      let (code, id) = unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) {
        unsafe lookup(name, $0)
      }
      guard code == ERANGE else { return id }
      size *= 4
    }
    return nil
  }
}
