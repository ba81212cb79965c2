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
