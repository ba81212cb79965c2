import SeededRandom
import Testing
import Wire

/// Requests that arrive whole, in pieces, damaged or too large.
@Suite struct RequestDecoderTests {
  /// The requests in a stream of bytes, and the error that ends it, if any.
  struct Outcome: Equatable {
    var requests: [[String]] = []
    var error: String?
  }

  static func decode(
    _ pieces: [[UInt8]], limits: RESPLimits = RESPLimits(), maximumBuffered: Int = .max
  ) -> Outcome {
    let outcome = decode(pieces, limits, maximumBuffered, looksAhead: false)
    let ahead = decode(pieces, limits, maximumBuffered, looksAhead: true)
    #expect(outcome == ahead, "what was looked at ahead is decoded as the rest is")
    return outcome
  }

  private static func decode(
    _ pieces: [[UInt8]], _ limits: RESPLimits, _ maximumBuffered: Int, looksAhead: Bool
  ) -> Outcome {
    var decoder = RequestDecoder(limits: limits)
    var outcome = Outcome()
    var announced: [String]?
    for piece in pieces {
      decoder.append(piece.span.bytes)
      do throws(RESPProtocolError) {
        while try decoder.next() {
          decoder.withArguments { outcome.requests.append(words($0)) }
          if let announced { #expect(announced == outcome.requests.last) }
          announced = nil
          if looksAhead { decoder.withNext { announced = words($0) } }
        }
      } catch {
        outcome.error = error.description
        return outcome
      }
      #expect(decoder.bufferedBytes <= maximumBuffered)
    }
    return outcome
  }

  private static func words(_ arguments: Arguments) -> [String] {
    (0..<arguments.count).map { String(decoding: arguments[$0]) }
  }

  @Test func theRequestAfterTheOneAtHandIsKnownOnceItHasCome() throws {
    var decoder = RequestDecoder()
    let request = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
    decoder.append(Array((request + request + String(request.dropLast())).utf8).span.bytes)
    var seen: [[String]] = []
    for _ in 0..<2 {
      let isThere = try decoder.next()
      #expect(isThere)
      decoder.withNext { seen.append(Self.words($0)) }
    }
    #expect(seen == [["GET", "a"]])
    let isThere = try decoder.next()
    #expect(!isThere)
  }

  static func decode(_ text: String, limits: RESPLimits = RESPLimits()) -> Outcome {
    decode([Array(text.utf8)], limits: limits)
  }

  static let corpus: [(bytes: String, requests: [[String]])] = [
    ("*1\r\n$4\r\nPING\r\n", [["PING"]]),
    ("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", [["GET", ""]]),
    ("*2\r\n$4\r\nECHO\r\n$6\r\na\r\nb\r\n\r\n", [["ECHO", "a\r\nb\r\n"]]),
    ("*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$2\r\ncc\r\n", [["a"], ["b", "cc"]]),
    ("*0\r\n*-1\r\n*1\r\n$1\r\nx\r\n", [["x"]]),
    ("*-9223372036854775807\r\nPING\r\n", [["PING"]]),
    ("PING\r\n", [["PING"]]),
    ("PING\n", [["PING"]]),
    ("  \r\n\r\n\n PING  a\tb \r\n", [["PING", "a", "b"]]),
    ("SET \"a b\" 'c d'\r\n*1\r\n$1\r\nx\r\nPING\r\n", [["SET", "a b", "c d"], ["x"], ["PING"]]),
  ]

  @Test func requestsAreTheSameHoweverTheyAreSplit() {
    for (text, requests) in Self.corpus {
      let bytes = Array(text.utf8)
      let whole = Self.decode([bytes])
      #expect(whole == Outcome(requests: requests), "\(text.debugDescription)")
      #expect(Self.decode(bytes.map { [$0] }) == whole, "\(text.debugDescription) byte by byte")
      for cut in 0...bytes.count {
        #expect(Self.decode([Array(bytes[..<cut]), Array(bytes[cut...])]) == whole)
      }
    }
  }

  @Test func aLengthCountsBytesNotCharacters() {
    #expect(Self.decode("*1\r\n$3\r\n重\r\n").requests == [["重"]])
    #expect(Self.decode("*1\r\n$2\r\n重\r\n").error == "bulk does not end where its length says")
  }

  @Test(arguments: 0..<20)
  func pipelinedRequestsAreTheSameWhenSplitAtRandomPlaces(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var bytes: [UInt8] = []
    var requests: [[String]] = []
    for _ in 0..<200 {
      let (text, expected) = Self.corpus.randomElement(using: &generator)!
      bytes += Array(text.utf8)
      requests += expected
    }
    var pieces: [[UInt8]] = []
    var start = 0
    while start < bytes.count {
      let end = min(bytes.count, start + Int.random(in: 1...40, using: &generator))
      pieces.append(Array(bytes[start..<end]))
      start = end
    }
    #expect(Self.decode(pieces, maximumBuffered: 200) == Outcome(requests: requests))
  }

  // MARK: Errors

  @Test(arguments: [
    ("*x\r\n", "invalid multibulk length"),
    ("*\r\n", "invalid multibulk length"),
    ("*-\r\n", "invalid multibulk length"),
    ("*1 \r\n", "invalid multibulk length"),
    ("*+1\r\n", "invalid multibulk length"),
    ("*1\rX", "invalid multibulk length"),
    ("*1\n$4\r\n", "invalid multibulk length"),
    ("*111111111111111111111111111", "invalid multibulk length"),
    ("*1\r\n:1\r\n", "expected '$', got ':'"),
    ("*1\r\nPING\r\n", "expected '$', got 'P'"),
    ("*1\r\n\r\n", "expected '$', got '\\x0d'"),
    ("*1\r\n\u{7F}", "expected '$', got '\\x7f'"),
    ("*1\r\n$-1\r\n", "invalid bulk length"),
    ("*1\r\n$\r\n", "invalid bulk length"),
    ("*1\r\n$a\r\n", "invalid bulk length"),
    ("*1\r\n$3\n", "invalid bulk length"),
    ("*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
    ("*1\r\n$3\r\nabcde\r\n", "bulk does not end where its length says"),
    ("*1\r\n$3\r\nabc\n\n", "bulk does not end where its length says"),
    ("SET \"a\r\n", "unbalanced quotes in request"),
    ("SET 'a\r\n", "unbalanced quotes in request"),
    ("SET \"a\"b\r\n", "unbalanced quotes in request"),
  ])
  func eachProtocolErrorHasItsOwnMessage(_ text: String, _ error: String) {
    #expect(Self.decode(text) == Outcome(error: error))
    #expect(Self.decode(Array(text.utf8).map { [$0] }) == Outcome(error: error))
  }

  @Test func hugeLengthsNeitherTrapNorAllocateTheErrorNamesTheLimit() {
    let maximum = "9223372036854775807"
    #expect(
      Self.decode("*\(maximum)\r\n").error == "\(maximum) arguments, max-arguments is 16384")
    #expect(
      Self.decode("*1\r\n$\(maximum)\r\n").error
        == "bulk of \(maximum) bytes, max-bulk-length is 262144")
    for huge in ["9223372036854775808", "18446744073709551616", "99999999999999999999999"] {
      #expect(Self.decode("*\(huge)\r\n").error?.hasSuffix("max-arguments is 16384") == true)
      let bulk = Self.decode("*1\r\n$\(huge)\r\n").error
      #expect(bulk?.hasSuffix("max-bulk-length is 262144") == true)
    }
  }

  @Test func leadingZerosAreAcceptedWithinTheLongestLength() {
    #expect(Self.decode("*0001\r\n$004\r\nPING\r\n").requests == [["PING"]])
    let zeros = String(repeating: "0", count: 30)
    #expect(Self.decode("*\(zeros)1\r\n").error == "invalid multibulk length")
  }

  @Test func eachLimitIsExactToTheByteAndTheErrorNamesIt() {
    let limits = RESPLimits(bulkLength: 10, inlineLength: 12, arguments: 3, requestLength: 15)
    func decode(_ text: String) -> Outcome { Self.decode(text, limits: limits) }
    #expect(decode("*1\r\n$10\r\n0123456789\r\n").requests == [["0123456789"]])
    #expect(decode("*1\r\n$11\r\n").error == "bulk of 11 bytes, max-bulk-length is 10")
    #expect(decode("*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n").requests == [["a", "b", "c"]])
    #expect(decode("*4\r\n").error == "4 arguments, max-arguments is 3")
    #expect(decode("*2\r\n$8\r\n01234567\r\n$7\r\n0123456\r\n").requests.count == 1)
    #expect(
      decode("*2\r\n$8\r\n01234567\r\n$8\r\n").error
        == "request too long, max-request-length is 15")
    #expect(decode("PING 1234567\n").requests == [["PING", "1234567"]])
    #expect(decode("PING 1234567\r\n").requests == [["PING", "1234567"]])
    #expect(
      Self.decode(["PING 1234567\r", "\n"].map { Array($0.utf8) }, limits: limits).requests
        == [["PING", "1234567"]])
    let tooLong = "inline command too long, max-inline-length is 12"
    #expect(decode("PING 12345678\r\n").error == tooLong)
    #expect(decode("PING 1234567\r\r\n").error == tooLong)
    #expect(decode("PING 12345678\n").error == tooLong)
    #expect(decode("PING 12345678").error == tooLong)
    #expect(decode("a b c d\r\n").error == "4 arguments, max-arguments is 3")
    // The length limit applies to each request, not to the connection.
    #expect(decode(String(repeating: "*1\r\n$10\r\n0123456789\r\n", count: 9)).requests.count == 9)
  }

  @Test func aLineWithoutEndIsRefusedNotBuffered() {
    let limits = RESPLimits(inlineLength: 1_000)
    let pieces = Array(repeating: Array(repeating: UInt8(ascii: "x"), count: 100), count: 100)
    let outcome = Self.decode(pieces, limits: limits, maximumBuffered: 1_100)
    #expect(outcome.error == "inline command too long, max-inline-length is 1000")
  }

  // MARK: Inline

  @Test(arguments: [
    ("a b", ["a", "b"]), ("  a   b  ", ["a", "b"]), ("\ta\tb\t", ["a", "b"]),
    ("\"\" ''", ["", ""]), ("\"a b\"", ["a b"]), ("'a b'", ["a b"]),
    ("\"\\n\\r\\t\\a\\b\\\\\\\"\"", ["\n\r\t\u{7}\u{8}\\\""]), ("\"\\x41\\x6a\\xZZ\"", ["AjxZZ"]),
    ("'\\n'", ["\\n"]), ("'it\\'s'", ["it's"]), ("\"\\q\"", ["q"]), ("a\\nb", ["a\\nb"]),
    ("key\"quoted\"", ["keyquoted"]), ("\"a'b\" 'c\"d'", ["a'b", "c\"d"]),
    ("a\u{0}b \u{0}", ["a\u{0}b", "\u{0}"]), ("重 \"重 发\"", ["重", "重 发"]), ("\"\\x4\"", ["x4"]),
  ])
  func inlineWordsAreSplitAsRedisServerDoes(_ line: String, _ words: [String]) {
    #expect(Self.decode(line + "\r\n") == Outcome(requests: [words]), "\(line.debugDescription)")
  }

  // MARK: Fuzz

  @Test(arguments: 0..<30)
  func garbageNeverTrapsAndNoMoreIsBufferedThanOneRequestMayHave(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let letters = Array("*$-+0123456789\r\n\r\n\"'\\x PINGa:".utf8)
    let limits = RESPLimits(bulkLength: 50, inlineLength: 100, arguments: 10, requestLength: 200)
    for _ in 0..<200 {
      let pieces = (0..<Int.random(in: 1...20, using: &generator)).map { _ in
        (0..<Int.random(in: 0...30, using: &generator)).map { _ in
          Bool.random(using: &generator)
            ? letters.randomElement(using: &generator)!
            : UInt8.random(in: 0...255, using: &generator)
        }
      }
      // A request at its limits: arguments, their lengths, and one more piece.
      let outcome = Self.decode(pieces, limits: limits, maximumBuffered: 200 + 10 * 8 + 16 + 30)
      #expect(outcome.requests.allSatisfy { $0.count <= 10 })
    }
  }

  @Test(arguments: 0..<30)
  func damagedRequestsNeverTrapAndRequestsBeforeTheDamageAreNotLost(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<300 {
      let intact = (0..<3).map { _ in Self.corpus.randomElement(using: &generator)! }
      var damaged = Array(intact[2].bytes.utf8)
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        let index = Int.random(in: 0..<damaged.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: damaged[index] = UInt8.random(in: 0...255, using: &generator)
        case 1: damaged.insert(UInt8.random(in: 0...255, using: &generator), at: index)
        default: if damaged.count > 1 { damaged.remove(at: index) }
        }
      }
      let before = intact[0].requests + intact[1].requests
      let bytes = Array((intact[0].bytes + intact[1].bytes).utf8) + damaged
      #expect(Self.decode([bytes]).requests.starts(with: before))
    }
  }

  @Test func afterAnErrorAskingAgainDoesNotTrap() {
    var decoder = RequestDecoder()
    decoder.append(Array("*1\r\n$x\r\nPING\r\n".utf8).span.bytes)
    var failures = 0
    for _ in 0..<5 {
      do throws(RESPProtocolError) { _ = try decoder.next() } catch { failures += 1 }
    }
    #expect(failures == 5)
  }
}
