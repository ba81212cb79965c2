import Glibc

/// What a directory never uses twice, in the file `numbers` beside the database: known even if the
/// database is set aside, restored from an old backup or lost.
struct Numbers: Equatable {
  /// The highest number that may have been given out; 0 if none was.
  var floor: Int64 = 0
  /// The newest start that may have written to a log; 0 if none has.
  var start: UInt32 = 0
  /// The newest state that a daemon has used; 0 if it is unknown.
  var state = 0

  /// How many numbers each start reserves: enough for a million countdowns per second for an hour.
  static let reserve: Int64 = 1 << 32
  /// The valid numbers, which begin at the microseconds since 1970: so far below 2⁶³ that numbers
  /// never reach that, and that two bits more fit (`LimitSends.Send`).
  static let possible: ClosedRange<Int64> = 0...1 << 60

  private static func path(in directory: String) -> String { directory + "/numbers" }

  /// Reads the numbers; none if the file does not exist, is invalid, or is not for this user.
  init(in directory: String) throws(StoreError) {
    let path = Self.path(in: directory)
    let bytes: [UInt8]
    do {
      bytes = try SafeFile.read(path, atMost: 128, SafeFile.own)
    } catch {
      if [ENOENT, ENOTDIR, EACCES, ELOOP, ENXIO].contains(error.code) { return }
      throw StoreError(error, path: path)
    }
    guard bytes.last == UInt8(ascii: "\n") else { return }
    // All is written twice, so that a partial write or a changed digit is noticed.
    let words = String(decoding: bytes.dropLast(), as: UTF8.self).split(separator: " ")
    let half = words.count / 2
    guard words[..<half] == words[half...], let floor = words.first.flatMap({ Int64($0) }),
      Self.possible.contains(floor)
    else { return }
    self.floor = floor
    // Earlier versions wrote only the floor.
    guard half == 3, let start = UInt32(words[1]), let state = Int(words[2]),
      StateFiles.possible.contains(state)
    else { return }
    (self.start, self.state) = (start, state)
  }

  init() {}

  /// Writes the numbers to the disk, in place, as a full disk has no room for another file.
  func write(in directory: String) throws(StoreError) {
    let numbers = "\(floor) \(start) \(state)"
    try SafeFile.write("\(numbers) \(numbers)\n", to: Self.path(in: directory))
  }
}

extension Store {
  /// Returns the first number for a daemon that stores nothing where an earlier one stored a state.
  /// Numbers keep rising, and the next daemon with that state notices the gap.
  ///
  /// Changes only `numbers` and `lock`: if `numbers` exists and no daemon uses the directory.
  ///
  /// - Parameter number: the lowest number to return.
  package static func firstNumber(
    keepingNothingIn directory: String, atLeast number: Int64
  ) throws(StoreError) -> Int64 {
    guard try Numbers(in: directory) != Numbers() else { return number }
    let lock: DirectoryLock
    do {
      lock = try DirectoryLock(directory)
    } catch {
      // The numbers of another daemon must not be changed.
      if case .inUse = error.kind { return number }
      throw error
    }
    defer { withExtendedLifetime(lock) {} }
    var numbers = try Numbers(in: directory)
    let first = max(numbers.floor + 1, number)
    numbers.floor = first + Numbers.reserve
    try numbers.write(in: directory)
    return first
  }
}
