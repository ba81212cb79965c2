import ArgumentParser
import CountdownClient

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

struct Backup: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies the daemon's state of this moment to a file.",
    discussion: """
      The daemon goes on meanwhile. The file is an SQLite database that only this user can read; \
      it gets its name once it is whole and on the disk, and then replaces one of that name. To \
      restore it, stop the daemon, and put it in the place of state.db in the state directory, \
      without the state.db-wal that is there.

      Examples:
        countdownctl backup /var/backups/countdownd.db
        sqlite3 /var/backups/countdownd.db 'SELECT key, state, deadline FROM countdown'
      """)

  @OptionGroup var global: GlobalOptions

  @Argument(help: "Where to put it.", completion: .file()) var file: String

  private static let chunk = 1 << 18

  func run(_ session: Session) async throws {
    let target: FileBeingWritten
    do {
      target = try FileBeingWritten(file)
    } catch {
      Output.error(error.text)
      throw ExitCode.refused
    }
    do {
      let size = try await copy(session, to: target)
      try target.finish()
      if session.json {
        Output.line(JSONValue.object([.init("bytes", .integer(size))]).text)
      } else {
        Output.line("\(file): \(size) bytes")
      }
    } catch let error as FileError {
      target.remove()
      Output.error(error.text)
      throw ExitCode.refused
    } catch {
      target.remove()
      throw error
    }
  }

  private func copy(_ session: Session, to target: FileBeingWritten) async throws -> Int {
    let client = session.client
    let id = String(try await client.send("BACKUP", "BEGIN").int ?? 0)
    var size = try await client.send("BACKUP", "SIZE", id)
    while size.isNull {
      try await Task.sleep(for: .milliseconds(20))
      size = try await client.send("BACKUP", "SIZE", id)
    }
    guard let size = size.int else {
      throw CountdownClientError.protocolViolation("a size that is no number")
    }
    var offset = 0
    while offset < size {
      let reply = try await client.send(
        "BACKUP", "READ", id, String(offset), String(Self.chunk))
      guard let bytes = reply.bytes, !bytes.isEmpty else {
        throw CountdownClientError.protocolViolation("a backup that ends too early")
      }
      try target.write(bytes)
      offset += bytes.count
    }
    _ = try await client.send("BACKUP", "END", id)
    return size
  }
}

private struct FileError: Error { let text: String }

/// A file that gets its name when it is whole.
private final class FileBeingWritten {
  private let path: String
  private let partial: String
  private let descriptor: Int32

  init(_ path: String) throws(FileError) {
    self.path = path
    partial = "\(path).\(getpid()).partial"
    descriptor = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    if descriptor < 0 { throw Self.error("cannot make \(partial)") }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func write(_ bytes: [UInt8]) throws(FileError) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { systemWrite(descriptor, $0.baseAddress, $0.count) }
      if written < 0, errno != EINTR { throw Self.error("cannot write \(partial)") }
      rest = rest.dropFirst(max(written, 0))
    }
  }

  func finish() throws(FileError) {
    guard fsync(descriptor) == 0 else { throw Self.error("cannot write \(partial)") }
    guard rename(partial, path) == 0 else { throw Self.error("cannot name \(path)") }
    // The name as well.
    let slash = path.lastIndex(of: "/")
    let parent = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
  }

  func remove() { unlink(partial) }

  private static func error(_ what: String) -> FileError {
    FileError(text: "\(what): \(String(cString: strerror(errno)))")
  }
}

/// Named apart, for `write` is the name of the method as well.
private func systemWrite(_ file: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
  write(file, bytes, count)
}
