import SeededRandom
import Testing
import Wire

@Suite struct ReplyDecoderTests {
  /// Replies of a server, each with its value.
  static let transcript: [(String, RESPValue)] = [
    ("+OK\r\n", .simpleString("OK")),
    ("+\r\n", .simpleString("")),
    ("-NOTFOUND no such countdown\r\n", .error("NOTFOUND no such countdown")),
    ("!10\r\nERR a\r\nbcd\r\n", .error("ERR a\r\nbcd")),
    (":-9223372036854775808\r\n", .integer(.min)),
    (":+7\r\n", .integer(7)),
    ("$5\r\na\r\nbc\r\n", .bulkString(Array("a\r\nbc".utf8))),
    ("$0\r\n\r\n", .bulkString([])),
    ("$-1\r\n", .null),
    ("*-1\r\n", .null),
    ("_\r\n", .null),
    ("*0\r\n", .array([])),
    ("%0\r\n", .map([])),
    ("*2\r\n:1\r\n*1\r\n+x\r\n", .array([.integer(1), .array([.simpleString("x")])])),
    (
      "%2\r\n$1\r\na\r\n#t\r\n$1\r\nb\r\n*1\r\n_\r\n",
      .map([.init(bulk("a"), .boolean(true)), .init(bulk("b"), .array([.null]))])
    ),
    ("~1\r\n#f\r\n", .set([.boolean(false)])),
    (",3.25\r\n", .double(3.25)),
    (",-inf\r\n", .double(-.infinity)),
    ("(-349289032840923850932\r\n", .bigNumber("-349289032840923850932")),
    ("=8\r\ntxt:a\r\nb\r\n", .verbatim(format: "txt", text: Array("a\r\nb".utf8))),
    ("|1\r\n+ttl\r\n:3\r\n:5\r\n", .integer(5)),
    ("*2\r\n|1\r\n+ttl\r\n*1\r\n:3\r\n:5\r\n|0\r\n:6\r\n", .array([.integer(5), .integer(6)])),
    (
      ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n{}\r\n",
      .push([bulk("message"), bulk("c"), bulk("{}")])
    ),
  ]

  static func bulk(_ text: String) -> RESPValue { .bulkString(Array(text.utf8)) }

  @Test func readsEachValueCutAtEveryByte() throws {
    for (text, expected) in Self.transcript {
      let bytes = Array(text.utf8)
      for cut in 0...bytes.count {
        var decoder = ReplyDecoder()
        decoder.feed(bytes[..<cut])
        let early = try decoder.next()
        if let early {
          #expect(cut == bytes.count, "\(text.debugDescription) complete after \(cut) bytes")
          #expect(early == expected)
          continue
        }
        decoder.feed(bytes[cut...])
        #expect(try decoder.next() == expected, "\(text.debugDescription) cut at \(cut)")
        #expect(try decoder.next() == nil)
      }
    }
  }

  @Test(arguments: 1...9)
  func readsTheWholeTranscriptInPieces(_ size: Int) throws {
    let bytes = Self.transcript.flatMap { Array($0.0.utf8) }
    var decoder = ReplyDecoder()
    var values: [RESPValue] = []
    for start in stride(from: 0, to: bytes.count, by: size) {
      decoder.feed(bytes[start..<min(start + size, bytes.count)])
      while let value = try decoder.next() { values.append(value) }
    }
    #expect(values == Self.transcript.map(\.1))
  }

  @Test(arguments: [
    ("?\r\n", ReplyDecoderError.unknownType(UInt8(ascii: "?"))),
    ("\r\n", .malformed(type: 0)),
    (":x\r\n", .malformed(type: UInt8(ascii: ":"))),
    (":9223372036854775808\r\n", .malformed(type: UInt8(ascii: ":"))),
    ("#1\r\n", .malformed(type: UInt8(ascii: "#"))),
    ("(12a\r\n", .malformed(type: UInt8(ascii: "("))),
    ("$-2\r\n", .malformed(type: UInt8(ascii: "$"))),
    ("$?\r\n", .malformed(type: UInt8(ascii: "$"))),
    ("$9223372036854775807\r\n", .tooLong("bulkLength", limit: 64 << 20)),
    ("*9223372036854775807\r\n", .tooLong("elements", limit: 1 << 20)),
    ("%9223372036854775807\r\n", .tooLong("elements", limit: 1 << 20)),
    ("=3\r\ntxt\r\n", .malformed(type: UInt8(ascii: "="))),
    ("$2\r\nabc\r\n", .missingLineEnd),
    ("+OK\n", .missingLineEnd),
  ])
  func refusesMalformedReplies(_ text: String, _ error: ReplyDecoderError) {
    var decoder = ReplyDecoder()
    decoder.feed(text.utf8)
    #expect(throws: error) { try decoder.next() }
    decoder.feed("+OK\r\n".utf8)
    #expect(throws: error, "the stream has lost its meaning") { try decoder.next() }
  }

  /// A randomly damaged stream is read the same however it is split, and never traps.
  @Test func damageReadsTheSameInAnyPieces() {
    let whole = Self.transcript.flatMap { Array($0.0.utf8) }
    var random = SeededGenerator(seed: 20_260_503)
    for _ in 0..<3000 {
      var bytes = whole
      for _ in 0...Int.random(in: 0...3, using: &random) {
        let index = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0...2, using: &random) {
        case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
        case 1: bytes.remove(at: index)
        default:
          bytes.insert(Array("$*%|-+:_0159\r\n".utf8).randomElement(using: &random)!, at: index)
        }
      }
      let atOnce = Self.outcome(bytes, pieces: bytes.count)
      #expect(Self.outcome(bytes, pieces: Int.random(in: 1...9, using: &random)) == atOnce)
    }
  }

  /// Returns the values of a stream, and the error that ended it.
  static func outcome(_ bytes: [UInt8], pieces size: Int) -> [String] {
    var decoder = ReplyDecoder()
    var outcome: [String] = []
    do {
      for start in stride(from: 0, to: bytes.count, by: size) {
        decoder.feed(bytes[start..<min(start + size, bytes.count)])
        while let value = try decoder.next() { outcome.append("\(value)") }
      }
    } catch {
      outcome.append("\(error)")
    }
    return outcome
  }

  @Test func refusesRepliesBeyondItsLimits() throws {
    var limits = ReplyDecoder.Limits()
    limits.depth = 2
    limits.elements = 4
    limits.lineLength = 6
    limits.bulkLength = 3
    func first(_ text: String) throws -> RESPValue? {
      var decoder = ReplyDecoder(limits: limits)
      decoder.feed(text.utf8)
      return try decoder.next()
    }
    #expect(try first("*1\r\n*1\r\n:1\r\n") != nil)
    #expect(throws: ReplyDecoderError.tooLong("depth", limit: 2)) {
      try first("*1\r\n*1\r\n*1\r\n:1\r\n")
    }
    #expect(try first("*3\r\n:1\r\n:2\r\n:3\r\n") != nil)
    #expect(throws: ReplyDecoderError.tooLong("elements", limit: 4)) {
      try first("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n")
    }
    #expect(try first("+abcde\r\n") != nil)
    #expect(throws: ReplyDecoderError.tooLong("lineLength", limit: 6)) {
      try first("+abcdefg")
    }
    #expect(throws: ReplyDecoderError.tooLong("bulkLength", limit: 3)) { try first("$4\r\n") }
  }

  @Test func findsFieldsInMapsAndInFlatArrays() {
    let map = RESPValue.map([.init(Self.bulk("state"), Self.bulk("ready"))])
    let flat = RESPValue.array([Self.bulk("accepted"), .integer(1), Self.bulk("n"), Self.bulk("7")])
    #expect(map["state"]?.string == "ready")
    #expect(map["other"] == nil)
    #expect(flat["accepted"]?.bool == true)
    #expect(flat["n"]?.int == 7)
    #expect(flat.pairs?.count == 2)
    #expect(RESPValue.array([])["n"] == nil)
  }

  @Test func writesRequests() {
    var bytes: [UInt8] = []
    RESPRequest.append([Array("GET".utf8), [], Array("é".utf8)], to: &bytes)
    #expect(String(decoding: bytes, as: UTF8.self) == "*3\r\n$3\r\nGET\r\n$0\r\n\r\n$2\r\né\r\n")
  }
}
