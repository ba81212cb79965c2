import Testing
import Wire

@testable import Countdowns

/// NAV and PAGE on the wire.
@Suite struct NavigationCommandTests {
  /// Returns a watcher's new events without generations, sequence numbers and times.
  private func reported(_ counter: DispatcherHarness, _ watcher: Session) throws -> [String] {
    try counter.take(watcher).map { frame in
      guard case .push(let message) = frame, let text = message.last?.text else {
        return "\(frame)"
      }
      return text.replacing(/"(generation|seq|(now|due|deadline)_unix_ms)":\d+,?/, with: "")
    }
  }

  @Test func eventsOfAStackReportThePageFirstThenTheStack() throws {
    let counter = DispatcherHarness()
    let watcher = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "nav:n"], by: watcher)
    _ = try counter.say("NAV PUSH n a BAR hidden")
    #expect(
      try reported(counter, watcher) == [
        #"{"event":"will-appear","key":"n","state":"settled","page":"a","first":true,"style":"pushed","bar":"hidden","depth":1,}"#,
        #"{"event":"did-appear","key":"n","state":"settled","page":"a","first":true,"style":"pushed","bar":"hidden","bar_changed":true,"depth":1,}"#,
      ])
    _ = try counter.say("NAV PUSH n b")
    _ = try reported(counter, watcher)
    _ = try counter.say("NAV SWIPE n X 1 DX 1 TIMEOUT 1s")
    #expect(
      try reported(counter, watcher).first
        == #"{"event":"swiping","key":"n","state":"transitioning","page":"b","fraction":0.0,"remaining_ms":1000,"depth":2,}"#
    )
    counter.pass(1_000)
    #expect(
      try reported(counter, watcher).first
        == #"{"event":"cancelled","key":"n","late_us":0,"reason":"timed-out","state":"settled","page":"b","depth":2,}"#
    )
  }

  @Test func ifTheNameOfAPageIsNotUTF8AllNamesComeAsBase64() {
    var line = JSONLine()
    line.begin()
    line.field("pages", list: [Array("a".utf8), [0xFF]])
    line.field("empty", list: [])
    line.end()
    #expect(String(decoding: line.bytes) == #"{"pages_base64":["YQ==","/w=="],"empty":[]}"#)
  }

  @Test func eventsOfAPageReportItsLoad() throws {
    let counter = DispatcherHarness()
    let watcher = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "page:p"], by: watcher)
    _ = try counter.say("PAGE APPEAR p TIMEOUT 0")
    _ = try counter.say("PAGE FAILED p MESSAGE offline")
    _ = try counter.say("PAGE CLOSE p")
    #expect(
      try reported(counter, watcher).suffix(2) == [
        #"{"event":"failed","key":"p","state":"error","animated":false,"visible":true,"items":null,"message":"offline","remaining_ms":null,"deadline_unix_ms":null,"error_page":true}"#,
        #"{"event":"closed","key":"p","reason":"closed","state":"unknown",}"#,
      ])
    #expect(try counter.say("PAGE GET p") == .null)
  }
}
