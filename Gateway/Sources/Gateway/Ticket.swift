import CountdownClient
import Crypto
import FoundationEssentials
import Synchronization

/// A page's permission to watch channels: a JSON Web Token (RFC 7519), signed with HMAC-SHA-256.
///
/// The app signs it. The page uses aliases; only the app and the gateway need the channels.
public struct Ticket: Sendable {
  /// The identity of the ticket: the `kid` and the `jti`, or the signature.
  let id: String
  /// The end of its validity, in seconds since 1970.
  let expires: Int
  /// Channels by alias.
  let watch: [String: String]
  /// The user, whose tickets the app can revoke.
  let subject: String?
  /// When the ticket was issued, in seconds since 1970.
  let issued: Int?

  static let mostChannels = 16
  /// The maximum validity, in seconds.
  static let longestLife = 15 * 60
  /// The tolerated difference between the clocks of the app and the gateway, in seconds.
  static let tolerance = 60
  private static let longestText = 8_192

  /// - Throws: `Problem` with the status 401.
  init(_ text: some StringProtocol, keys: TicketKeys, now: Int) throws(Problem) {
    let bytes = Array(text.utf8)
    let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard bytes.count <= Self.longestText, parts.count == 3, let header = Self.decode(parts[0]),
      let signature = [UInt8](base64URL: parts[2])
    else { throw .ticket("the ticket is not a JSON Web Token of at most 8 KiB") }
    // Extensions that must be understood; the gateway supports none.
    guard header["alg"]?.string == "HS256", header["crit"]?.isNull != false else {
      throw .ticket("the ticket is not signed with HS256")
    }
    guard let kid = header["kid"]?.string, let key = keys.secret(kid) else {
      throw .ticket("the ticket names no key (kid) that the gateway knows")
    }
    let signed = bytes[..<parts[1].endIndex]
    guard
      HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: signed, using: key)
    else { throw .ticket("the signature of the ticket is wrong") }
    guard let claims = try? Self.decode(parts[1]).map(Claims.init) else {
      throw .ticket("the ticket needs exp, a number, and watch, an object of channels by alias")
    }
    let expires = claims.exp
    guard expires > now else { throw .ticket("the ticket has expired") }
    guard expires <= now + Self.longestLife + Self.tolerance else {
      throw .ticket("the ticket is valid for longer than 15 minutes")
    }
    if let begin = claims.nbf, begin > now + Self.tolerance {
      throw .ticket("the ticket is not valid yet")
    }
    guard (1...Self.mostChannels).contains(claims.watch.count) else {
      throw .ticket("watch has 1 to \(Self.mostChannels) channels")
    }
    for (alias, channel) in claims.watch {
      guard Self.isAlias(alias) else {
        throw .ticket("an alias is 1 to 64 letters, digits, dots, hyphens or underscores")
      }
      guard EntityChannel(channel) != nil else {
        throw .ticket("the channel of the alias \(alias) is not KIND:KEY")
      }
    }
    self.expires = expires
    watch = claims.watch
    subject = claims.sub
    issued = claims.iat
    id = claims.jti.map { "\(kid) \($0)" } ?? String(decoding: parts[2], as: UTF8.self)
  }

  /// Returns the text of a ticket for channels by alias, signed with the first key of a file, or
  /// with `kid`.
  ///
  /// - Throws: if there is no such key, or if the gateway would refuse the ticket.
  public static func text(
    watching watch: [String: String], seconds: Int, keyFile: String, kid: String? = nil,
    subject: String? = nil
  ) throws(StartError) -> String {
    let keys = try TicketKeys(file: keyFile)
    let kid = kid ?? keys.first
    guard let key = keys.secret(kid) else { throw StartError("\(keyFile) has no key \(kid)") }
    let now = Int(Date.now.timeIntervalSince1970)
    let header = RESPValue.object(["alg": "HS256", "typ": "JWT", "kid": .simpleString(kid)])
    var claims: [String: RESPValue] = [
      "exp": .integer(now + seconds), "iat": .integer(now),
      "jti": .simpleString(String(UInt64.random(in: .min ... .max), radix: 36)),
      "watch": .object(watch.mapValues { .simpleString($0) }),
    ]
    claims["sub"] = subject.map { .simpleString($0) }
    do {
      let signed = [header, .object(claims)].map { Data($0.json.utf8).base64URL }
        .joined(separator: ".")
      let signature = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: key)
      let text = "\(signed).\(Data(signature).base64URL)"
      _ = try Ticket(text, keys: keys, now: now)
      return text
    } catch {
      throw StartError(error.detail)
    }
  }

  /// What a ticket says, with times in seconds since 1970.
  private struct Claims {
    let exp: Int
    let nbf: Int?
    let iat: Int?
    let jti: String?
    let sub: String?
    let watch: [String: String]

    /// - Throws: if a required claim is missing, or if a claim has the wrong type.
    init(_ json: RESPValue) throws {
      guard let exp = try json.claim("exp", \.seconds),
        let watch = try json.claim("watch", \.texts)
      else { throw InvalidClaim() }
      (self.exp, self.watch) = (exp, watch)
      nbf = try json.claim("nbf", \.seconds)
      iat = try json.claim("iat", \.seconds)
      jti = try json.claim("jti", \.string)
      sub = try json.claim("sub", \.string)
    }
  }

  private static func decode(_ part: ArraySlice<UInt8>) -> RESPValue? {
    [UInt8](base64URL: part).flatMap { String(validating: $0, as: UTF8.self) }
      .flatMap(RESPValue.init(json:))
  }

  private static func isAlias(_ alias: String) -> Bool {
    (1...64).contains(alias.utf8.count)
      && alias.utf8.allSatisfy { byte in
        switch UInt8(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
          UInt8(ascii: "_"):
          true
        default: false
        }
      }
  }
}

private struct InvalidClaim: Error {}

extension RESPValue {
  fileprivate static func object(_ members: [String: RESPValue]) -> RESPValue {
    .map(members.map { .init(.simpleString($0), $1) })
  }

  /// Returns a member; nil if it is missing or null. Throws if it has the wrong type.
  fileprivate func claim<Value>(_ name: String, _ read: (RESPValue) -> Value?) throws -> Value? {
    guard let member = self[name], !member.isNull else { return nil }
    guard let value = read(member) else { throw InvalidClaim() }
    return value
  }

  /// A time, limited to what calculations can hold.
  fileprivate var seconds: Int? {
    switch self {
    case .integer(let seconds): min(max(seconds, 0), 1 << 50)
    case .double(let seconds): Int(min(max(seconds.rounded(.down), 0), 0x1p50))
    default: nil
    }
  }

  /// The texts of an object.
  fileprivate var texts: [String: String]? {
    guard case .map(let members) = self else { return nil }
    var texts: [String: String] = [:]
    for member in members {
      guard let name = member.key.string, let text = member.value.string else { return nil }
      texts[name] = text
    }
    return texts
  }
}

extension [UInt8] {
  /// Decodes base64url without padding (RFC 4648, section 5).
  fileprivate init?(base64URL text: ArraySlice<UInt8>) {
    guard text.count % 4 != 1 else { return nil }
    self = []
    reserveCapacity(text.count * 3 / 4)
    var (bits, count) = (UInt32(0), 0)
    for byte in text {
      let digit: UInt8
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit = byte - UInt8(ascii: "A")
      case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = byte - UInt8(ascii: "a") + 26
      case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0") + 52
      case UInt8(ascii: "-"): digit = 62
      case UInt8(ascii: "_"): digit = 63
      default: return nil
      }
      bits = bits << 6 | UInt32(digit)
      count += 6
      guard count >= 8 else { continue }
      count -= 8
      append(UInt8(truncatingIfNeeded: bits >> count))
    }
  }
}

extension Data {
  fileprivate var base64URL: String {
    base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }
}

/// The secrets with which apps sign tickets, by name (`kid`).
struct TicketKeys: Sendable {
  private let secrets: [String: SymmetricKey]
  /// The first of the file.
  let first: String

  func secret(_ kid: String) -> SymmetricKey? { secrets[kid] }

  /// Reads a file of lines `KID SECRET`; a line that begins with `#` is a comment.
  init(file: String) throws(StartError) {
    var secrets: [String: SymmetricKey] = [:]
    var first: String?
    for (number, line) in try StartError.text(of: file).split(
      separator: "\n", omittingEmptySubsequences: false
    ).enumerated() {
      let words = line.split(whereSeparator: \.isWhitespace)
      if words.isEmpty || words[0].hasPrefix("#") { continue }
      guard words.count == 2, words[1].utf8.count >= ServerKey.shortest else {
        throw StartError(
          "\(file):\(number + 1): write KID SECRET; a secret has at least "
            + "\(ServerKey.shortest) bytes (`openssl rand -base64 32` makes one)")
      }
      guard secrets[String(words[0])] == nil else {
        throw StartError("\(file):\(number + 1): the key \(words[0]) is there twice")
      }
      secrets[String(words[0])] = SymmetricKey(data: Data(words[1].utf8))
      first = first ?? String(words[0])
    }
    guard let first else { throw StartError("\(file) has no key; write KID SECRET") }
    self.secrets = secrets
    self.first = first
  }
}

/// The tickets that the gateway has accepted, so that pages that reconnect cost no signature.
final class KnownTickets: Sendable {
  /// The number of tickets above which the expired ones are removed, or else all.
  private static let most = 10_000

  private let keys: TicketKeys
  private let known = Mutex<[String: Ticket]>([:])

  init(_ keys: TicketKeys) { self.keys = keys }

  /// - Throws: `Problem` with the status 401.
  func ticket(_ text: String, now: Int) throws(Problem) -> Ticket {
    if let ticket = known.withLock({ $0[text] }), ticket.expires > now { return ticket }
    let ticket = try Ticket(text, keys: keys, now: now)
    known.withLock { known in
      if known.count >= Self.most { known = known.filter { $0.value.expires > now } }
      if known.count >= Self.most { known = [:] }
      known[text] = ticket
    }
    return ticket
  }

  var count: Int { known.withLock { $0.count } }
}

/// The key with which servers authenticate to send commands.
struct ServerKey: Sendable {
  static let shortest = 32
  private let digest: SHA256.Digest

  init(file: String) throws(StartError) {
    let words = try StartError.text(of: file).split(whereSeparator: \.isWhitespace)
    guard words.count == 1, words[0].utf8.count >= Self.shortest else {
      throw StartError(
        "\(file): write one key of at least \(Self.shortest) bytes (`openssl rand -base64 32` "
          + "makes one)")
    }
    digest = SHA256.hash(data: Data(words[0].utf8))
  }

  /// Returns whether a text is the key. Takes as long for a wrong key as for the right one.
  func matches(_ text: some StringProtocol) -> Bool {
    // Digests are compared in constant time.
    SHA256.hash(data: Data(text.utf8)) == digest
  }
}

/// The reason why the gateway cannot start.
public struct StartError: Error, CustomStringConvertible {
  public let description: String
  init(_ description: String) { self.description = description }

  fileprivate static func text(of file: String) throws(StartError) -> String {
    do {
      return String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
    } catch {
      throw StartError("cannot read \(file): \(error)")
    }
  }
}
