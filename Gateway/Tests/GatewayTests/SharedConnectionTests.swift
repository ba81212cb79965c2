import Testing

@testable import Gateway

@Suite struct SharedConnectionTests {
  private func isRefused(_ line: String) -> Bool {
    SharedConnection.problem(line.split(separator: " ").map(String.init)) != nil
  }

  @Test(arguments: [
    "gate take s", "SCOPE HANDLE s e CAPTURE", "HUD SHOW h STATUS OWNER owner Connection",
    "timer SET t 1h EVERY 1h OWNER connection", "EVENTS SINCE 0 LIMIT 1 subscribed",
  ])
  func whatBindsToTheConnectionIsRefused(line: String) { #expect(isRefused(line)) }

  @Test(arguments: [
    "GATE CHECK OWNER connection", "NAV PUSH OWNER connection POP on", "GATE GET TAKE", "GATE",
    "PING",
    "TIMER SET t 1h OWNER scope:connection", "TIMER LIST OWNER connection", "TIMER SET t 1h OWNER",
    "HUD STATUS OWNER connection", "EVENTS SINCE SUBSCRIBED",
  ])
  func everythingElseIsNot(line: String) { #expect(!isRefused(line)) }
}
