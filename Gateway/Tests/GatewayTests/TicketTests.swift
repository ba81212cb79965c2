import Crypto
import Foundation
import Testing

@testable import Gateway

@Suite struct TicketTests {
  static let now = 1_790_000_000
  static let secret = "0123456789abcdef0123456789abcdef"

  private let keys: TicketKeys

  init() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID())")
    try Data("# old\n\none \(Self.secret)\ntwo \(Self.secret)2\n".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    keys = try TicketKeys(file: file.path)
  }

  private func base64URL(_ data: some DataProtocol) -> String {
    Data(data).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }

  private func token(
    header: String = #"{"alg":"HS256","kid":"one"}"#, claims: String, secret: String = Self.secret
  ) -> String {
    let signed = base64URL(Data(header.utf8)) + "." + base64URL(Data(claims.utf8))
    let key = SymmetricKey(data: Data(secret.utf8))
    let code = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: key)
    return signed + "." + base64URL(Data(code))
  }

  private func claims(exp: Int = now + 300, more: String = "") -> String {
    #"{"exp":\#(exp),"watch":{"resend":"countdown:+4512345678"}\#(more)}"#
  }

  private func detail(_ token: String) -> String? {
    do {
      _ = try Ticket(token, keys: keys, now: Self.now)
      return nil
    } catch {
      #expect(error.status == .unauthorized)
      return error.detail
    }
  }

  @Test
  func aTicketThatAnAppHasSignedIsAccepted() throws {
    let ticket = try Ticket(token(claims: claims()), keys: keys, now: Self.now)
    #expect(ticket.watch == ["resend": "countdown:+4512345678"])
    #expect(ticket.expires == Self.now + 300)
    #expect(detail(token(claims: claims(more: #","jti":"x","nbf":1"#))) == nil)
    let other = token(
      header: #"{"kid":"two","typ":"JWT","alg":"HS256"}"#, claims: claims(),
      secret: Self.secret + "2")
    #expect(detail(other) == nil)
  }

  @Test
  func aTicketThatTheGatewayIssuesIsAcceptedAndItIssuesNoneThatItWouldRefuse() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID())")
    try Data("one \(Self.secret)\ntwo \(Self.secret)2\n".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let watch = ["resend": "countdown:+4512345678", "up.load_1-x": "hud:4/2=3"]
    let now = Int(Date.now.timeIntervalSince1970)
    for kid in [nil, "two"] {
      let text = try Ticket.text(watching: watch, seconds: 300, keyFile: file.path, kid: kid)
      let ticket = try Ticket(text, keys: keys, now: now)
      #expect(ticket.watch == watch && (now + 300...now + 310).contains(ticket.expires))
      #expect(ticket.id.hasPrefix((kid ?? "one") + " "))
    }
    for (watch, seconds, kid) in [
      ([:], 300, nil), (["a b": "timer:t"], 300, nil), (["a": "timer"], 300, nil),
      (["a": "timer:t"], 1_000, nil), (["a": "timer:t"], 300, "three"),
    ] as [([String: String], Int, String?)] {
      #expect(throws: StartError.self) {
        try Ticket.text(watching: watch, seconds: seconds, keyFile: file.path, kid: kid)
      }
    }
  }

  @Test
  func otherAlgorithmsKeysSignaturesAndExtensionsAreRefused() throws {
    let good = token(claims: claims())
    let parts = good.split(separator: ".")
    for header in [
      #"{"alg":"none","kid":"one"}"#, #"{"alg":"HS512","kid":"one"}"#,
      #"{"alg":"hs256","kid":"one"}"#,
      #"{"alg":"HS256","kid":"one","crit":["x"]}"#, #"{"kid":"one"}"#,
    ] { #expect(detail(token(header: header, claims: claims())) != nil, "\(header)") }
    for header in [#"{"alg":"HS256"}"#, #"{"alg":"HS256","kid":"three"}"#] {
      #expect(detail(token(header: header, claims: claims()))?.contains("kid") == true)
    }
    let wrong = "the signature of the ticket is wrong"
    #expect(detail(token(claims: claims(), secret: Self.secret + "2")) == wrong)
    #expect(detail("\(parts[0]).\(parts[1]).") == wrong)
    let changed = base64URL(Data(claims(exp: Self.now + 301).utf8))
    #expect(detail("\(parts[0]).\(changed).\(parts[2])") == wrong)
    for text in [
      "", ".", "..", "a.b", good + ".x", good + "=", String(repeating: "a", count: 9_000),
    ] {
      #expect(detail(text) != nil, "\(text)")
    }
  }

  @Test
  func aTicketIsValidUntilExpWhichIsAtMost15MinutesAhead() {
    #expect(detail(token(claims: claims(exp: Self.now + 1))) == nil)
    #expect(detail(token(claims: claims(exp: Self.now))) == "the ticket has expired")
    #expect(detail(token(claims: claims(exp: Self.now + 960))) == nil)
    #expect(detail(token(claims: claims(exp: Self.now + 961)))?.contains("15 minutes") == true)
    #expect(detail(token(claims: #"{"watch":{"a":"hud:b"}}"#))?.contains("exp") == true)
    #expect(detail(token(claims: #"{"exp":1e400,"watch":{"a":"hud:b"}}"#)) != nil)
    #expect(detail(token(claims: claims(more: #","nbf":\#(Self.now + 61)"#))) != nil)
  }

  @Test
  func aTicketHas1To16ChannelsEachWithAnAlias() {
    func detail(_ watch: String) -> String? {
      self.detail(token(claims: #"{"exp":\#(Self.now + 9),"watch":\#(watch)}"#))
    }
    func many(_ count: Int) -> String {
      "{" + (0..<count).map { #""a\#($0)":"timer:\#($0)""# }.joined(separator: ",") + "}"
    }
    #expect(detail(many(16)) == nil)
    for watch in [
      many(17), "{}", "[]", #"{"a":1}"#, #"{"":"timer:a"}"#, #"{"a b":"timer:a"}"#,
      #"{"ä":"timer:a"}"#, #"{"a":"timer:"}"#, #"{"a":"timer"}"#, #"{"a":"connection:1"}"#,
      #"{"a":"nothing:1"}"#, #"{"a":"timer:\#(String(repeating: "k", count: 513))"}"#,
    ] { #expect(detail(watch) != nil, "\(watch)") }
  }

  @Test
  func aPatternForAChannelMatchesNothingElse() {
    #expect(EntityChannel(#"timer:a*b?c[d]\e"#)?.pattern == #"timer:a\*b\?c\[d\]\\e"#)
  }

  @Test
  func aKnownTicketStillExpiresAndAnAlteredOneIsNotKnown() throws {
    let known = KnownTickets(keys)
    let text = token(claims: #"{"exp":\#(Self.now + 60),"watch":{"a":"timer:b"}}"#)
    #expect(try known.ticket(text, now: Self.now).watch == ["a": "timer:b"])
    // The second time, the ticket is found by its text.
    #expect(try known.ticket(text, now: Self.now + 59).watch == ["a": "timer:b"])
    #expect(known.count == 1)
    #expect(throws: Problem.self) { try known.ticket(text, now: Self.now + 60) }
    #expect(throws: Problem.self) { try known.ticket(text + "A", now: Self.now) }
    #expect(known.count == 1)
  }
}
