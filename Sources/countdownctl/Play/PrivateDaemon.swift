import CountdownClient
import CountdownStore
import Glibc
import Wire

/// A daemon on virtual time for one flow. Its socket and its state are in a directory that is
/// removed with it.
final class PrivateDaemon {
  let socket: String
  private let directory: String
  /// Nil once the process has been waited for.
  private var process: ChildProcess?

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
      // It is the same program as countdownctl; its name selects it.
      process = ChildProcess(
        "/proc/self/exe",
        [
          "countdownd", "--socket", socket, "--state-directory", "\(directory)/state",
          "--config", file, "--virtual-time",
        ], output: "\(directory)/log")
      if process == nil { throw Failure(system: "cannot start countdownd") }
    } catch {
      Self.remove(directory)
      throw error
    }
  }

  /// Returns why the daemon has ended, from its log; nil while it runs.
  func ending() -> String? {
    if let process {
      guard process.status(waits: false) != nil else { return nil }
      self.process = nil
    }
    return (try? TextFile.read("\(directory)/log")) ?? "countdownd has ended"
  }

  deinit {
    process?.terminate()
    _ = process?.status()
    Self.remove(directory)
  }

  /// Removes a file, or a directory with its contents. Does not follow links.
  private static func remove(_ path: String) {
    guard unsafe unlink(path) != 0 else { return }
    for name in (try? SafeFile.names(in: path)) ?? [] { remove("\(path)/\(name)") }
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
