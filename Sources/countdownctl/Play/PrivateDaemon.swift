import CountdownClient
import Glibc
import Wire

/// A daemon on virtual time for one flow. Its socket and its state are in a directory that is
/// removed with it.
final class PrivateDaemon {
  let socket: String
  private let directory: String
  /// Nil once the process has been waited for.
  private var process: pid_t?

  init(configuration: String?) throws {
    let parent = Output.environment("TMPDIR") ?? "/tmp"
    var template = Array("\(parent)/countdownctl-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else {
      throw Failure(system: "cannot make a directory in \(parent)")
    }
    let directory = unsafe template.withUnsafeBufferPointer {
      unsafe String(cString: $0.baseAddress!)
    }
    self.directory = directory
    socket = "\(directory)/socket"
    do {
      let file = "\(directory)/countdownd.yaml"
      let yaml = try FileBeingWritten(file)
      try yaml.write(Array((configuration ?? "").utf8))
      try yaml.finish()
      process = try Self.spawn(
        [
          "countdownd", "--socket", socket, "--state-directory", "\(directory)/state",
          "--config", file, "--virtual-time",
        ], log: "\(directory)/log")
    } catch {
      Self.remove(directory)
      throw error
    }
  }

  /// Starts countdownd. It is the same program as countdownctl; the name in `words` selects it.
  private static func spawn(_ words: [String], log: String) throws(Failure) -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_addopen(
      &actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    unsafe posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
    var arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { while unsafe !arguments.isEmpty { unsafe free(arguments.removeLast()) } }
    var process = pid_t()
    let code = unsafe posix_spawn(&process, "/proc/self/exe", &actions, nil, &arguments, environ)
    guard code == 0 else {
      errno = code
      throw Failure(system: "cannot start countdownd")
    }
    return process
  }

  /// Returns why the daemon has ended, from its log; nil while it runs.
  func ending() -> String? {
    if let process {
      var status: Int32 = 0
      guard unsafe waitpid(process, &status, WNOHANG) == process else { return nil }
      self.process = nil
    }
    return (try? TextFile.read("\(directory)/log")) ?? "countdownd has ended"
  }

  deinit {
    if let process {
      kill(process, SIGTERM)
      var status: Int32 = 0
      while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    }
    Self.remove(directory)
  }

  /// Removes a file, or a directory with its contents. Does not follow links.
  private static func remove(_ path: String) {
    guard unsafe unlink(path) != 0, let stream = unsafe opendir(path) else { return }
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) {
        unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { remove("\(path)/\(name)") }
    }
    unsafe closedir(stream)
    unsafe rmdir(path)
  }
}

/// Reads whole text files.
enum TextFile {
  static func read(_ path: String) throws(Failure) -> String {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure(system: "cannot read \(path)") }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe Glibc.read(descriptor, &part, part.count)
      guard count >= 0 else { throw Failure(system: "cannot read \(path)") }
      guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes += part[..<count]
    }
  }
}
