import CountdownStore
import Countdowns
import Glibc

/// How connections to the servers of a fleet, or to its Sentinels, are encrypted and authenticated.
/// Connections that are opened later use what was read last.
package final class FleetSecrets {
  fileprivate(set) var tls: TLSContext?
  fileprivate(set) var username: String?
  fileprivate(set) var password: [UInt8]?

  /// What the files of the settings have.
  package struct Files {
    fileprivate let tls: TLSContext?
    fileprivate let password: [UInt8]?
    /// Empty: the Sentinels have no password.
    fileprivate let sentinelPassword: [UInt8]?

    package init(_ settings: FleetSettings) throws(FleetError) {
      tls = settings.tls.isEnabled ? try TLSContext(settings.tls) : nil
      password =
        if let file = settings.passwordFile {
          try Self.password(in: file, "fleet.password-file", atLeast: 1)
        } else { nil }
      sentinelPassword =
        if let file = settings.sentinelPasswordFile {
          try Self.password(in: file, "fleet.sentinel-password-file", atLeast: 0)
        } else { nil }
    }

    private static let longestPassword = 4_096

    /// Returns the first line of a file, without its line end.
    private static func password(
      in file: String, _ setting: String, atLeast least: Int
    ) throws(FleetError) -> [UInt8] {
      let line: [UInt8]
      do {
        line = try SafeFile.firstLine(file, atMost: longestPassword)
      } catch {
        throw FleetError("cannot read \(setting): \(file): \(error.reason)")
      }
      guard (least...longestPassword).contains(line.count) else {
        throw FleetError("\(setting): \(file): no line of \(least) to \(longestPassword) bytes")
      }
      return line
    }
  }

  /// Takes what the servers need.
  func take(_ files: Files, _ settings: FleetSettings) {
    (tls, username, password) = (files.tls, settings.username, files.password)
  }

  /// Takes what the Sentinels need.
  func takeForSentinels(_ files: Files, _ settings: FleetSettings) {
    guard let own = files.sentinelPassword else { return take(files, settings) }
    (tls, username, password) = (files.tls, settings.sentinelUsername, own.isEmpty ? nil : own)
  }
}
