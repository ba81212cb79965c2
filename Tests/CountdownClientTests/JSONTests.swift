import CountdownClient
import Testing

@Suite struct JSONTests {
  @Test(arguments: [
    #"{"a":[1,-2.5,true,false,null],"b":{"c":"d"}}"#, "[]", "{}", #""\"\\\n\u0001é😀""#,
    "-9223372036854775808", #"{"z":1,"a":2}"#,
  ])
  func whatIsReadIsWrittenTheSame(_ text: String) throws {
    #expect(try JSONValue(parsing: text.utf8).text == text)
  }

  @Test(arguments: [
    "", "{", "[1,]", #"{"a"}"#, #""a"#, "tru", "1 2", "-", #""\x""#, #""\u12g4""#, "[1}", "\"\n\"",
  ])
  func whatIsNotJSONIsRefused(_ text: String) {
    #expect(throws: JSONParserError.self) { try JSONValue(parsing: text.utf8) }
  }

  @Test func depthIsLimited() {
    #expect(throws: JSONParserError.self) {
      try JSONValue(parsing: String(repeating: "[", count: 100_000).utf8)
    }
  }

  @Test func halfASurrogateIsReplaced() throws {
    #expect(try JSONValue(parsing: #""\ud83dx""#.utf8) == .string("\u{FFFD}x"))
    #expect(try JSONValue(parsing: #""\ud83d\u0041""#.utf8) == .string("\u{FFFD}A"))
  }

  @Test func aReplyBecomesJSONAsEventsSpellIt() {
    let reply = RESPValue.map([
      .init(.bulkString(Array("key".utf8)), .bulkString([0xFF, 0x00])),
      .init(.simpleString("n"), .integer(3)),
      .init(.simpleString("ok"), .boolean(true)),
    ])
    #expect(JSONValue(reply).text == #"{"key_base64":"/wA=","n":3,"ok":true}"#)
  }
}
