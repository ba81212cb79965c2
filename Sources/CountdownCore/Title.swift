/// The text of a countdown's button: `%d` stands for the steps left, `%%` for a percent sign.
package enum Title {
  /// The text for `remaining`, in UTF-8. Any other `%` is taken as it is.
  package static func text(_ format: [UInt8], remaining: Int64) -> [UInt8] {
    let percent = UInt8(ascii: "%")
    guard format.contains(percent) else { return format }
    var text: [UInt8] = []
    text.reserveCapacity(format.count + 8)
    var index = 0
    while index < format.count {
      let following = index + 1 < format.count ? format[index + 1] : 0
      switch (format[index], following) {
      case (percent, UInt8(ascii: "d")):
        text.append(contentsOf: String(remaining).utf8)
        index += 2
      case (percent, percent):
        text.append(percent)
        index += 2
      default:
        text.append(format[index])
        index += 1
      }
    }
    return text
  }
}
