import Foundation
import ServiceLifecycle
import Synchronization

/// A daemon in its own folder, which is restarted whenever it is killed.
final class PrivateDaemon: Service {
  struct Life: Sendable {
    var pid: Int32 = 0
    var starts = 0
  }

  private let program: String
  private let folder: URL
  private let current = Mutex(Life())

  init(program: String, configuration: String) throws {
    self.program = program
    folder = FileManager.default.temporaryDirectory.appending(path: "showcase-\(getpid())")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    _ = try write(configuration, to: "countdownd.yaml")
  }

  var socket: String { path("socket") }
  var life: Life { current.withLock { $0 } }

  private func path(_ name: String) -> String { folder.appending(path: name).path }

  func write(_ text: String, to name: String) throws -> String {
    try Data(text.utf8).write(to: folder.appending(path: name))
    return path(name)
  }

  /// Kills the daemon with SIGKILL.
  func kill() { _ = Glibc.kill(life.pid, SIGKILL) }

  func run() async throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    // Held until this process ends.
    let pipe = Pipe()
    try watch(pipe)
    defer { withExtendedLifetime(pipe) {} }
    let log = FileHandle(forWritingAtPath: try write("", to: "log"))
    while !Task.isCancelled, !Task.isShuttingDownGracefully {
      let process = Process()
      process.executableURL = URL(filePath: program)
      process.arguments = [
        "--socket", socket, "--config", path("countdownd.yaml"), "--state-directory", path("state"),
      ]
      process.standardOutput = log
      process.standardError = log
      let (ends, end) = AsyncStream.makeStream(of: Void.self)
      process.terminationHandler = { _ in end.finish() }
      try process.run()
      _ = try write("\(process.processIdentifier)", to: "pid")
      current.withLock { $0 = Life(pid: process.processIdentifier, starts: $0.starts + 1) }
      await withTaskCancellationOrGracefulShutdownHandler {
        for await _ in ends {}
      } onCancelOrGracefulShutdown: {
        process.terminate()
      }
      process.waitUntilExit()
      // A daemon that exits with an error would do so again.
      if process.terminationReason == .exit, process.terminationStatus != 0 {
        throw Failure(
          description: (try? String(contentsOfFile: path("log"), encoding: .utf8)) ?? program)
      }
    }
  }

  /// Starts a shell that ends the daemon if this process is killed: then the pipe ends.
  private func watch(_ pipe: Pipe) throws {
    let shell = Process()
    shell.executableURL = URL(filePath: "/bin/sh")
    shell.arguments = [
      "-c", #"read _; kill "$(cat "$0/pid")" 2>/dev/null; rm -rf "$0""#, folder.path,
    ]
    shell.standardInput = pipe
    shell.standardError = FileHandle.nullDevice
    try shell.run()
  }

  struct Failure: Error, CustomStringConvertible {
    let description: String
  }
}
