import ArgumentParser
import CountdownClient
import FoundationEssentials
import Wire

struct Ticket: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Issue a ticket, with which a page reads events from countdown-gateway.",
    discussion: """
      A ticket is a JSON Web Token, signed with HS256. The page knows the aliases only. Your app can \
      make tickets itself, with any JWT library.

      The file has a line KID SECRET for each key; the gateway reads the same file. A secret has at \
      least 32 bytes: openssl rand -base64 32.

      Examples:
        countdownctl ticket --keys keys resend=countdown:+4512345678
        countdownctl ticket --keys keys --for 15m resend=countdown:+4512345678 upload=hud:42
      """)

  @Argument(help: .init("The channels that the page may watch.", valueName: "alias=channel"))
  var watch: [String]
  @Option(help: "The file of the keys.", completion: .file()) var keys: String
  @Option(help: "The key to sign with (default: the first of the file).") var kid: String?
  @Option(
    name: .customLong("for"), help: .init("How long it is valid.", valueName: "duration"),
    transform: duration)
  var life = Duration.seconds(5 * 60)
  @OptionGroup var global: GlobalOptions

  // The gateway has the same limits.
  private static let longestLife = Duration.seconds(15 * 60)
  private static let mostChannels = 16
  private static let shortestSecret = 32

  func validate() throws {
    guard life >= .seconds(1), life <= Self.longestLife else {
      throw ValidationError("a ticket is valid for 1s to 15m")
    }
    guard watch.count <= Self.mostChannels else {
      throw ValidationError("a ticket has at most \(Self.mostChannels) channels")
    }
    _ = try channels()
  }

  private func channels() throws -> [RESPValue.Pair] {
    var aliases: Set<Substring> = []
    return try watch.map { text in
      let parts = text.split(separator: "=", maxSplits: 1)
      let isAlias =
        parts.first?.utf8.count ?? 65 <= 64
        && parts[0].utf8.allSatisfy {
          $0 < 0x80
            && (Character(UnicodeScalar($0)).isLetter || Character(UnicodeScalar($0)).isNumber
              || ".-_".utf8.contains($0))
        }
      guard isAlias, parts.count == 2,
        let kind = parts[1].firstIndex(of: ":").map({ parts[1][..<$0] }),
        CountdownEvent.Kind(rawValue: String(kind)).map({ $0 != .connection }) == true,
        parts[1].utf8.count > kind.utf8.count + 1
      else {
        throw ValidationError(
          "'\(text.printable)' is not ALIAS=KIND:KEY, such as resend=countdown:+4512345678; an "
            + "alias has letters, digits, dots, hyphens and underscores")
      }
      guard aliases.insert(parts[0]).inserted else {
        throw ValidationError("the alias '\(parts[0])' is there twice")
      }
      return .init(.text(String(parts[0])), .text(String(parts[1])))
    }
  }

  func run() throws {
    let (kid, secret) = try key()
    let now = Int(Date.now.timeIntervalSince1970)
    let header = RESPValue.object(["alg": "HS256", "typ": "JWT", "kid": kid])
    let claims = RESPValue.object([
      "exp": now + Int(life.components.seconds), "iat": now,
      "jti": String(UInt64.random(in: .min ... .max), radix: 36),
      "watch": RESPValue.map(try channels()),
    ])
    let signed = "\(Self.base64URL(header.json.utf8)).\(Self.base64URL(claims.json.utf8))"
    let signature = SHA256.hmac(Array(signed.utf8), key: Array(secret.utf8))
    Output.line("\(signed).\(Self.base64URL(signature))")
  }

  private func key() throws -> (kid: String, secret: String) {
    guard let data = FileManager.default.contents(atPath: keys) else {
      Output.error("cannot read \(keys)", code: "FILE")
      throw ExitCode.refused
    }
    let found = String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
      .map { $0.split(whereSeparator: \.isWhitespace).map(String.init) }
      .first { $0.count == 2 && !$0[0].hasPrefix("#") && (kid == nil || $0[0] == kid) }
    guard let found, found[1].utf8.count >= Self.shortestSecret else {
      let wanted = kid.map { " '\($0)'" } ?? ""
      Output.error(
        "\(keys) has no key\(wanted) of at least \(Self.shortestSecret) bytes; write KID SECRET",
        code: "FILE")
      throw ExitCode.refused
    }
    return (found[0], found[1])
  }

  /// Encodes without padding (RFC 4648, section 5).
  private static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    String(
      Data(bytes).base64EncodedString().compactMap {
        switch $0 {
        case "+": "-"
        case "/": "_"
        case "=": nil
        default: $0
        }
      })
  }
}
