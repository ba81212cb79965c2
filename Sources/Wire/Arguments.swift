/// The arguments of one request, where they lie in the decoder's memory: valid only while they
/// are lent.
package struct Arguments {
  let base: UnsafeRawPointer
  let ranges: UnsafeBufferPointer<ArgumentRange>

  package var count: Int { ranges.count }

  package subscript(index: Int) -> UnsafeRawBufferPointer {
    let range = ranges[index]
    return UnsafeRawBufferPointer(start: base + Int(range.start), count: Int(range.count))
  }
}

struct ArgumentRange {
  /// From the first byte of the request.
  var start: UInt32
  var count: UInt32
}
