import CountdownServer
import CountdownStore
import Glibc

/// `CLOCK RESTART` and `CLOCK REBOOT`: the process becomes a new daemon, as a service manager would
/// start one. Nothing but virtual time is handed over.
enum VirtualRestart {
  private static let variable = "COUNTDOWND_VIRTUAL_CLOCK"

  /// Returns where virtual time continues after a restart; nil without one. Works only once.
  static func start() -> StoreClock.Reading? {
    guard let text = unsafe getenv(variable).map({ unsafe String(cString: $0) }) else { return nil }
    unsafe unsetenv(variable)
    let words = text.split(separator: " ")
    guard words.count == 3, let boot = Int64(words[1]), let wall = Int64(words[2]) else {
      return nil
    }
    return StoreClock.Reading(
      bootID: String(words[0]), bootMicroseconds: boot, wallMicroseconds: wall)
  }

  /// Starts the program again, with the same arguments.
  static func again(at start: StoreClock.Reading) -> Never {
    let text = "\(start.bootID) \(start.bootMicroseconds) \(start.wallMicroseconds)"
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
