import Glibc
import Testing
import Wire

@Suite struct ShortTextTests {
  private func text(_ write: (inout ShortText) -> Void) -> String {
    ShortText.withTemporary(atMost: 64) {
      write(&$0)
      return String(decoding: $0.bytes)
    }
  }

  @Test func decimalNumbersOfAllLengthsAreWritten() {
    var values: [Int64] = [0, .max, .min, .max - 1]
    var power: Int64 = 1
    while power <= .max / 10 {
      power *= 10
      values += [power - 1, power, power + 1, -power, power / 2 + 7]
    }
    for value in values {
      #expect(text { $0.decimal(value) } == "\(value)")
      #expect(
        text {
          $0.integer(value)
          $0.integer(7)
        } == ":\(value)\r\n:7\r\n")
      let reply = ":\(value)\r\n"
      ShortText.withTemporary(atMost: reply.utf8.count) {
        $0.integer(value)
        #expect(String(decoding: $0.bytes) == reply)
      }
    }
    for value in [UInt64.max, 10_000_000_000_000_000_000, 9_999_999_999_999_999_999] {
      #expect(text { $0.decimal(value) } == "\(value)")
    }
    for value in 0..<1_000 as Range<Int64> { #expect(text { $0.decimal(value) } == "\(value)") }
  }

  @Test func partsOfRepliesAreWritten() {
    #expect(text { $0.integer(-5) } == ":-5\r\n")
    #expect(text { $0.bulk("state") } == "$5\r\nstate\r\n")
    #expect(text { $0.bulk(Span()) } == "$0\r\n\r\n")
  }

  @Test func namesOfAllLengthsAreWrittenWithRoomToSpareAndWithout() {
    let names: [StaticString] = [
      "", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcdefghi",
      "abcdefghij", "abcdefghijklmno", "abcdefghijklmnop", "abcdefghijklmnopq",
    ]
    for name in names {
      let bulk = "$\(name.utf8CodeUnitCount)\r\n\(name)\r\n"
      #expect(text { $0.bulk(name) } == bulk)
      // Text that comes next is not cut off.
      #expect(
        text {
          $0.bulk(name)
          $0.integer(1)
        } == bulk + ":1\r\n")
      ShortText.withTemporary(atMost: bulk.utf8.count) {
        $0.bulk(name)
        #expect(String(decoding: $0.bytes) == bulk)
      }
    }
  }

  /// Calls `write` with memory that is one byte too short and ends before a page without access.
  /// The process ends with a trap if that is noticed before the write, and with a segmentation
  /// fault if it is noticed after.
  private static func write(_ length: Int, _ write: (inout ShortText) -> Void) {
    let page = Int(sysconf(Int32(_SC_PAGESIZE)))
    let pages = mmap(
      nil, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
    mprotect(pages + page, page, PROT_NONE)
    let short = length - 1
    var text = ShortText(
      UnsafeMutableRawBufferPointer(start: pages + page - short, count: short))
    write(&text)
  }

  #if arch(x86_64)
    private static let trap = SIGILL
  #else
    private static let trap = SIGTRAP
  #endif

  @Test func textThatDoesNotFitEndsTheProcessBeforeItIsWritten() async {
    await #expect(processExitsWith: .signal(Self.trap)) { Self.write(1) { $0.byte(0x30) } }
    await #expect(processExitsWith: .signal(Self.trap)) { Self.write(2) { $0.newline() } }
    await #expect(processExitsWith: .signal(Self.trap)) { Self.write(5) { $0.raw("12345") } }
    await #expect(processExitsWith: .signal(Self.trap)) {
      Self.write(5) { $0.raw("12345".utf8.span) }
    }
    await #expect(processExitsWith: .signal(Self.trap)) { Self.write(11) { $0.bulk("state") } }
    await #expect(processExitsWith: .signal(Self.trap)) { Self.write(8) { $0.integer(12_345) } }
    await #expect(processExitsWith: .signal(Self.trap)) {
      Self.write(16) { $0.decimal(1_234_567_812_345_678 as UInt64) }
    }
    await #expect(processExitsWith: .signal(Self.trap)) {
      Self.write(3) { $0.decimal(123 as UInt64) }
    }
  }
}
