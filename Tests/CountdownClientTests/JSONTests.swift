import CountdownClient
import Testing

@Suite struct JSONTests {
  private func event(_ json: String) throws -> CountdownEvent {
    try CountdownEvent(channel: "timer:k", message: json.utf8)
  }

  @Test func fieldsHaveTheTypesOfReplies() throws {
    let json = #"""
      {"event":"fired","n":-9223372036854775808,"d":-2.5,"yes":true,"none":null,"a":["x",1],
      "o":{"b":"\u00e9\ud83d\ude00\"\\\n"}}
      """#
    let event = try event(json)
    #expect(event.json == json)
    #expect(event.fields["n"] == .integer(.min))
    #expect(event.fields["d"] == .double(-2.5))
    #expect(event.fields["yes"] == .boolean(true))
    #expect(event.fields["none"] == .null)
    #expect(event.fields["a"] == .array([.bulkString([0x78]), .integer(1)]))
    #expect(event.fields["o"]?["b"]?.string == "é😀\"\\\n")
    #expect(event.fields["missing"] == nil)
    #expect(try self.event(#" {"event" : "fired", "n" : 2.0e1 } "#).fields["n"] == .integer(20))
    let deep = String(repeating: "[", count: 32) + String(repeating: "]", count: 32)
    #expect(try self.event(#"{"event":"fired","a":\#(deep)}"#).fields["a"]?.json == deep)
  }

  @Test(arguments: [
    "", "{", "[1]", #"{"a"}"#, #"{"a"#, #"{"a":tru}"#, #"{"a":1} 2"#, #"{"a":-}"#, #"{"a":"\x"}"#,
    #"{"a":"\u12g4"}"#, "{\"a\":\"\n\"}", "[1}", #"{a:1}"#, #"{'a':1}"#, #"{"a":1 "b":2}"#,
    #"{"a":[1,]}"#, #"{"a":1,}"#, #"{"a":1,"b":2,"a":3}"#, #"{"a":"\"}"#, #"{"a":"\u00"}"#, "{\0}",
    // Numbers that JSON does not know.
    #"{"a":01}"#, #"{"a":-01}"#, #"{"a":+1}"#, #"{"a":1.}"#, #"{"a":.5}"#, #"{"a":1e}"#,
    #"{"a":0x10}"#, #"{"a":NaN}"#,
    // Half a pair of surrogates, and an escape with a sign.
    #"{"a":"\ud83dx"}"#, #"{"a":"\ud83d\u0041"}"#, #"{"a":"\u+123"}"#,
  ])
  func refusesWhatIsNotAJSONObject(_ json: String) {
    let violation = CountdownClientError.protocolViolation("an event on timer:k that is not JSON")
    let named = json.replacing("{\"a\"", with: #"{"event":"fired","a""#)
    #expect(throws: violation) { try event(named) }
  }

  @Test(arguments: [33, 600, 100_000])
  func refusesDeepNesting(_ depth: Int) {
    let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    #expect(throws: CountdownClientError.self) { try event(#"{"event":"fired","a":\#(value)}"#) }
  }

  @Test func bytesThatAreNotUTF8AreBase64() throws {
    let event = try event(
      #"{"event":"set","key_base64":"/wA=","state":"running","payload_base64":"gA=="}"#)
    #expect(event.timer?.keyBytes == [0xFF, 0x00] && event.timer?.payload == [0x80])
    #expect(event.timer?.key == "\u{FFFD}\0")
    let reply = RESPValue.map([
      .init(.simpleString("key"), .bulkString([0xFF, 0x00])),
      .init(.simpleString("state"), .simpleString("running")),
      .init(.simpleString("payload"), .bulkString([0x80])),
    ])
    let view = try TimerView(reply)
    #expect(view.keyBytes == [0xFF, 0x00] && view.payload == [0x80])
  }

  @Test func refusesAViewWithoutAStateAndReadsThoseOfANewerDaemon() throws {
    func view(_ state: RESPValue) -> RESPValue {
      .map([
        .init(.simpleString("key"), .simpleString("k")), .init(.simpleString("state"), state),
      ])
    }
    #expect(throws: CountdownClientError.self) { try TimerView(view(.null)) }
    #expect(try TimerView(view(.simpleString("flying"))).state == "flying")
    #expect(throws: CountdownClientError.self) { try TimerView(.simpleString("OK")) }
  }
}
