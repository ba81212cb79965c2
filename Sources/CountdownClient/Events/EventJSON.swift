import Wire

// Users see times and their properties without an import of their own.
#if canImport(FoundationEssentials)
  @_exported public import struct FoundationEssentials.Date
  import FoundationEssentials
#else
  @_exported public import struct Foundation.Date
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
    bytes?.textOrBase64
  }
}

extension Date: FieldValue {
  /// Converts a number of milliseconds since 1970.
  package static func value(of field: RESPValue) -> Date? {
    field.int.map { Date(timeIntervalSince1970: Double($0) / 1_000) }
  }
}

extension [UInt8] {
  init?(base64 text: String) {
    guard let data = Data(base64Encoded: text) else { return nil }
    self.init(data)
  }

  /// The text, in base64 if not UTF-8.
  package var textOrBase64: String {
    String(validating: self, as: UTF8.self) ?? Data(self).base64EncodedString()
  }
}
