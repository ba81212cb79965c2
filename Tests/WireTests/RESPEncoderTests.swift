import Testing
import Wire

@Suite struct RESPEncoderTests {
  private func encode(
    _ version: RESPEncoder.Version, _ write: (inout RESPEncoder) -> Void
  ) -> String {
    var encoder = RESPEncoder(version)
    write(&encoder)
    return String(decoding: encoder.bytes, as: UTF8.self)
  }

  private func expect(
    _ resp2: String, _ resp3: String, sourceLocation: SourceLocation = #_sourceLocation,
    _ write: (inout RESPEncoder) -> Void
  ) {
    #expect(encode(.resp2, write) == resp2, sourceLocation: sourceLocation)
    #expect(encode(.resp3, write) == resp3, sourceLocation: sourceLocation)
  }

  @Test func simpleValuesAreWrittenAlikeInBothVersions() {
    expect("+OK\r\n", "+OK\r\n") { $0.simple("OK") }
    expect("-ERR no\r\n", "-ERR no\r\n") { $0.error("ERR no") }
    expect("$3\r\nabc\r\n", "$3\r\nabc\r\n") { $0.bulk("abc" as String) }
    expect("$0\r\n\r\n", "$0\r\n\r\n") { $0.bulk([UInt8]()) }
    expect("$3\r\n重\r\n", "$3\r\n重\r\n") { $0.bulk("重" as String) }
    expect("$2\r\n\r\n\r\n", "$2\r\n\r\n\r\n") { $0.bulk([0x0D, 0x0A]) }
    expect("$4\r\nname\r\n", "$4\r\nname\r\n") { $0.bulk("name" as StaticString) }
    expect("*2\r\n", "*2\r\n") { $0.array(2) }
  }

  @Test func resp2GetsTheNearestTypeItHas() {
    expect("$-1\r\n", "_\r\n") { $0.null() }
    expect(":1\r\n", "#t\r\n") { $0.boolean(true) }
    expect(":0\r\n", "#f\r\n") { $0.boolean(false) }
    expect("$3\r\n0.5\r\n", ",0.5\r\n") { $0.double(0.5) }
    expect("*6\r\n", "%3\r\n") { $0.map(3) }
    expect("*3\r\n", "~3\r\n") { $0.set(3) }
    expect("*3\r\n", ">3\r\n") { $0.push(3) }
    expect("$3\r\n重\r\n", "=7\r\ntxt:重\r\n") { $0.text("重") }
  }

  @Test func anErrorIsAlwaysOneLine() {
    let escaped = "-ERR a\\u{d}\\u{a}b\\u{1b}[2J\\u{9b}\\u{202e}\r\n"
    expect(escaped, escaped) { $0.error("ERR a\r\nb\u{1B}[2J\u{9B}\u{202E}") }
  }

  @Test func integersAreWrittenOverTheirWholeRange() {
    for value in [0, 1, 9, 10, -1, -9, -10, 1_234_567, .max, .min] as [Int64] {
      expect(":\(value)\r\n", ":\(value)\r\n") { $0.integer(value) }
    }
  }

  @Test func aPairIsWrittenAsItsNameAndItsValueAloneWouldBe() {
    let powers = (0...18).map { exponent in (0..<exponent).reduce(Int64(1)) { n, _ in n * 10 } }
    let values: [Int64] = [0, -1, .max, .min] + powers + powers.map { $0 - 1 } + powers.map { -$0 }
    for version in [RESPEncoder.Version.resp2, .resp3] {
      for value in values {
        let alone = encode(version) {
          $0.bulk("remaining_ms" as StaticString)
          $0.integer(value)
        }
        #expect(encode(version) { $0.pair("remaining_ms", value) } == alone)
      }
      for count in [0, 1, 9, 10, 99, 100, 512, 513, 4_096] {
        let text = String(repeating: "x", count: count)
        let alone = encode(version) {
          $0.bulk("meta" as StaticString)
          $0.bulk(text)
        }
        #expect(encode(version) { $0.pair("meta", text) } == alone)
      }
    }
  }
}
