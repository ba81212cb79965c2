import RESP
import Testing

@Suite struct ShortTextTests {
  private func text(_ write: (inout ShortText) -> Void) -> String {
    withUnsafeTemporaryAllocation(byteCount: 64, alignment: 8) { memory in
      var text = ShortText(memory)
      write(&text)
      return String(decoding: memory[..<text.count], as: UTF8.self)
    }
  }

  @Test("Decimal digits of all lengths")
  func decimals() {
    var values: [Int64] = [0, .max, .min, .max - 1]
    var power: Int64 = 1
    while power <= .max / 10 {
      power *= 10
      values += [power - 1, power, power + 1, -power, power / 2 + 7]
    }
    for value in values { #expect(text { $0.decimal(value) } == "\(value)") }
    for value in [UInt64.max, 10_000_000_000_000_000_000, 9_999_999_999_999_999_999] {
      #expect(text { $0.decimal(value) } == "\(value)")
    }
    for value in 0..<1_000 as Range<Int64> { #expect(text { $0.decimal(value) } == "\(value)") }
  }

  @Test("Replies")
  func replies() {
    #expect(text { $0.integer(-5) } == ":-5\r\n")
    #expect(text { $0.bulk("state") } == "$5\r\nstate\r\n")
    #expect(text { $0.bulk(UnsafeRawBufferPointer(start: nil, count: 0)) } == "$0\r\n\r\n")
  }
}
