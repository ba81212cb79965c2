import Glibc

/// A program that this one has started.
struct ChildProcess {
  private let id: pid_t

  /// Starts a program without input; `errno` says why that fails.
  ///
  /// - Parameters:
  ///   - words: its name, and its arguments.
  ///   - output: the file to which what it prints is appended.
  init?(_ program: String, _ words: [String], output: String) {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_addopen(
      &actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    unsafe posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
    var arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { while unsafe !arguments.isEmpty { unsafe free(arguments.removeLast()) } }
    var id = pid_t()
    let code = unsafe posix_spawnp(&id, program, &actions, nil, &arguments, environ)
    guard code == 0 else {
      errno = code
      return nil
    }
    self.id = id
  }

  func terminate() { kill(id, SIGTERM) }

  /// Returns its status once it has ended; nil if it has not, unless it is to be waited for.
  func status(waits: Bool = true) -> Int32? {
    var status: Int32 = 0
    while true {
      let ended = unsafe waitpid(id, &status, waits ? 0 : WNOHANG)
      if ended < 0, errno == EINTR { continue }
      return ended == id ? status : nil
    }
  }
}
