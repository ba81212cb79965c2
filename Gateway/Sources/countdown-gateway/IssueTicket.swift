import ArgumentParser
import Gateway

/// Issues a ticket.
struct IssueTicket: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ticket",
    abstract: "Issue a ticket, with which a page reads events.",
    discussion: """
      A ticket is a JSON Web Token, signed with HS256. The page knows the aliases only. Your app can \
      make tickets itself, with any JWT library.

      The file has a line KID SECRET for each key; the gateway reads the same file. A secret has at \
      least 32 bytes: openssl rand -base64 32.

      Examples:
        countdown-gateway ticket --keys keys resend=countdown:+4512345678
        countdown-gateway ticket --keys keys --minutes 15 upload=hud:42
      """)

  @Argument(help: .init("The channels that the page may watch.", valueName: "alias=channel"))
  var watch: [String]
  @Option(help: "The file of the keys.", completion: .file()) var keys: String
  @Option(help: "The key to sign with (default: the first of the file).") var kid: String?
  @Option(
    help: .init("The user, whose tickets POST /v1/revoke ends.", valueName: "user"))
  var subject: String?
  @Option(help: "How long it is valid: 1 to 15 minutes.") var minutes = 5

  func run() throws {
    var channels: [String: String] = [:]
    for text in watch {
      guard let sign = text.firstIndex(of: "=") else {
        throw ValidationError("'\(text)' is not ALIAS=KIND:KEY, such as resend=countdown:42")
      }
      let alias = String(text[..<sign])
      guard channels.updateValue(String(text[text.index(after: sign)...]), forKey: alias) == nil
      else { throw ValidationError("the alias '\(alias)' is there twice") }
    }
    guard (1...15).contains(minutes) else {
      throw ValidationError("a ticket is valid for 1 to 15 minutes")
    }
    do {
      print(
        try Ticket.text(
          watching: channels, seconds: minutes * 60, keyFile: keys, kid: kid, subject: subject))
    } catch {
      throw ValidationError("\(error)")
    }
  }
}
