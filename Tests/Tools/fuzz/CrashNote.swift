import Glibc

/// The note to print, and the input to keep, if the program crashes or hangs.
///
/// A signal handler may only read memory and write to files, so everything is prepared for it.
enum CrashNote {
  /// Longer than any input takes, even in a build with a sanitizer.
  private static let patienceSeconds: UInt32 = 60
  private static let capacity = 1 << 22

  // One thread sets these variables; the handler runs on the thread that crashed.
  nonisolated(unsafe) private static let text = UnsafeMutableRawPointer.allocate(
    byteCount: 4_096, alignment: 1)
  nonisolated(unsafe) private static let path = UnsafeMutableRawPointer.allocate(
    byteCount: 4_096, alignment: 1)
  nonisolated(unsafe) private static let input = UnsafeMutableRawPointer.allocate(
    byteCount: capacity, alignment: 1)
  nonisolated(unsafe) private static var textLength = 0
  nonisolated(unsafe) private static var inputLength = 0
  nonisolated(unsafe) private static var isInstalled = false

  static func set(_ note: String, _ bytes: [UInt8], _ file: String) {
    install()
    textLength = copy(Array(note.utf8), to: text, 4_096)
    _ = copy(Array(file.utf8) + [0], to: path, 4_096)
    inputLength = copy(bytes, to: input, capacity)
    alarm(patienceSeconds)
  }

  static func clear() {
    alarm(0)
    textLength = 0
  }

  static func write() {
    let file = open(path.assumingMemoryBound(to: CChar.self), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    if file >= 0 {
      _ = Glibc.write(file, input, inputLength)
      close(file)
    }
    _ = Glibc.write(STDERR_FILENO, text, textLength)
  }

  private static func copy(_ bytes: [UInt8], to: UnsafeMutableRawPointer, _ maximum: Int) -> Int {
    let count = min(bytes.count, maximum)
    bytes.withUnsafeBytes { _ = memcpy(to, $0.baseAddress ?? UnsafeRawPointer(to), count) }
    return count
  }

  private static func install() {
    guard !isInstalled else { return }
    isInstalled = true
    // The handler cannot run on a stack that has overflowed.
    var stack = stack_t()
    stack.ss_size = 1 << 16
    stack.ss_sp = .allocate(byteCount: stack.ss_size, alignment: 16)
    sigaltstack(&stack, nil)
    for signal in [SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGBUS, SIGSEGV, SIGALRM] {
      var action = sigaction()
      action.sa_flags = SA_ONSTACK | Int32(bitPattern: UInt32(SA_RESETHAND))
      action.__sigaction_handler.sa_handler = { number in
        CrashNote.write()
        raise(number)
      }
      sigaction(signal, &action, nil)
    }
  }
}
