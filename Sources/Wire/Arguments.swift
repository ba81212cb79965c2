/// The arguments of one request, borrowed from the decoder's memory.
package struct Arguments: ~Escapable {
  private let bytes: Span<UInt8>
  private let ranges: Span<ArgumentRange>

  @_lifetime(copy bytes, copy ranges)
  init(_ bytes: Span<UInt8>, _ ranges: Span<ArgumentRange>) {
    self.bytes = bytes
    self.ranges = ranges
  }

  package var count: Int { ranges.count }

  package subscript(index: Int) -> Span<UInt8> {
    @_lifetime(copy self)
    get {
      let range = ranges[index]
      return bytes.extracting(Int(range.start)..<Int(range.start) + Int(range.count))
    }
  }
}

struct ArgumentRange {
  /// The offset from the first byte of the request.
  var start: UInt32
  var count: UInt32
}

/// A copy of the arguments of a request that is executed later, without the decoder's bytes.
package struct KeptArguments: Sendable {
  private var bytes: [UInt8] = []
  private var ranges: [ArgumentRange] = []

  package init(_ arguments: Arguments) {
    for index in 0..<arguments.count {
      let argument = arguments[index]
      ranges.append(
        ArgumentRange(start: UInt32(bytes.count), count: UInt32(argument.count)))
      bytes.append(contentsOf: argument)
    }
  }

  package init(_ words: [[UInt8]]) {
    for word in words {
      ranges.append(ArgumentRange(start: UInt32(bytes.count), count: UInt32(word.count)))
      bytes += word
    }
  }

  package func withArguments<R>(_ body: (Arguments) -> R) -> R {
    body(Arguments(bytes.span, ranges.span))
  }
}
