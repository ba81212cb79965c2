import CountdownServer
import CountdownStore
import Glibc

/// `CLOCK RESTART` and `CLOCK REBOOT`: the process becomes a new daemon, as a service manager would
/// start one. Nothing is handed over but virtual time, and the descriptor at which the new daemon
/// answers the command.
struct VirtualRestart {
  private static let variable = "COUNTDOWND_VIRTUAL_CLOCK"

  /// Where virtual time continues.
  let start: StoreClock.Reading
  private let caller: Int32

  /// Reads what the start before has handed over; nil if there is nothing. Works only once.
  init?() {
    guard let text = unsafe getenv(Self.variable).map({ unsafe String(cString: $0) })
    else { return nil }
    unsafe unsetenv(Self.variable)
    let words = text.split(separator: " ")
    guard words.count == 4, let boot = Int64(words[1]), let wall = Int64(words[2]),
      let caller = Int32(words[3])
    else { return nil }
    start = StoreClock.Reading(
      bootID: String(words[0]), bootMicroseconds: boot, wallMicroseconds: wall)
    self.caller = caller
  }

  /// Replies with the time of the wall clock, and closes the connection.
  func answer() {
    let reply = Array(":\(start.wallMicroseconds / 1_000)\r\n".utf8)
    // Whoever does not read it, or has gone, misses it.
    _ = unsafe write(caller, reply, reply.count)
    close(caller)
  }

  /// Starts the program again, with the same arguments.
  static func again(at start: StoreClock.Reading, answering caller: Int32) -> Never {
    let text =
      "\(start.bootID) \(start.bootMicroseconds) \(start.wallMicroseconds) \(caller)"
    unsafe setenv(variable, text, 1)
    // libdispatch may have blocked the signals that it watches, and execv keeps the mask.
    var none = sigset_t()
    unsafe sigemptyset(&none)
    unsafe sigprocmask(SIG_SETMASK, &none, nil)
    var arguments = unsafe CommandLine.arguments.map { unsafe strdup($0) } + [nil]
    unsafe execv(program, &arguments)
    complain("cannot start again: \(unsafe String(cString: strerror(errno)))")
    exit(EX_OSERR)
  }

  /// The path of this program, which need not be in the arguments.
  private static var program: String {
    let link = "/proc/self/exe"
    var path = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
    let length = unsafe readlink(link, &path, Int(PATH_MAX))
    return length > 0
      ? String(decoding: path.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self) : link
  }
}
