import Wire

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

extension RESPValue {
  /// Reads a JSON object as the equivalent map of a reply, sorted by name.
  ///
  /// - Throws: `DecodingError` for any other JSON, and for values nested more than 32 deep.
  package init(json: some Collection<UInt8>) throws {
    self = .map(pairs: try JSONDecoder().decode([String: JSONField].self, from: Data(json)))
  }

  fileprivate static func map(pairs: [String: JSONField]) -> RESPValue {
    .map(
      pairs.sorted { $0.key < $1.key }
        .map { .init(.bulkString(Array($0.key.utf8)), $0.value.value) })
  }
}

/// A JSON value, read as the equivalent value of a reply.
private struct JSONField: Decodable {
  let value: RESPValue

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard decoder.codingPath.count <= 32 else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "nested too deep")
    }
    if container.decodeNil() {
      value = .null
    } else if let integer = try? container.decode(Int.self) {
      value = .integer(integer)
    } else if let text = try? container.decode(String.self) {
      value = .bulkString(Array(text.utf8))
    } else if let flag = try? container.decode(Bool.self) {
      value = .boolean(flag)
    } else if let number = try? container.decode(Double.self) {
      value = .double(number)
    } else if let elements = try? container.decode([JSONField].self) {
      value = .array(elements.map(\.value))
    } else {
      value = .map(pairs: try container.decode([String: JSONField].self))
    }
  }
}

extension RESPValue {
  /// The text of any string value, in base64 (RFC 4648) if not UTF-8; nil for other values.
  package var textOrBase64: String? {
    guard let bytes else { return nil }
    return String(validating: bytes, as: UTF8.self) ?? Data(bytes).base64EncodedString()
  }
}
