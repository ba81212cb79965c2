import Logging
import Testing
import Wire

@testable import countdownd

@Suite struct LogLineTests {
  @Test func aLineHasNoCharacterThatATerminalActsOn() {
    let line = LogLine(
      LogEvent(
        level: .info, message: "a\u{1B}[2J\u{202E}\nb", metadata: ["key": "\u{9B}\u{2028}"],
        source: "", file: "", function: "", line: 1),
      [:])
    #expect(line.wholeText == #"a\u{1b}[2J\u{202e} | b key=\u{9b}\u{2028}"#)
  }
}
