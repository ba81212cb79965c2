import CSQLite
import Glibc

/// A failure of the store, and advice on what to do about it.
package struct StoreError: Error, Equatable, CustomStringConvertible {
  package enum Kind: Equatable, Sendable {
    /// No space left, or a quota is reached.
    case full
    /// The file, its directory or its file system cannot be written.
    case readOnly
    /// The directory cannot be used at all: it is missing, not ours, or not a directory.
    case inaccessible
    case inputOutput
    /// A file was moved away or removed: the next start would not find its content.
    case missing
    /// Another file is in the place of an open one: the next start would not find its content.
    case replaced
    /// A state with a higher number is there: the next start continues with it.
    case superseded
    /// The file's content is not what was written to it.
    case corrupt
    /// A daemon uses the directory.
    case inUse(pid: Int32?)
    /// Another program has the file open, such as the sqlite3 shell.
    case locked
    /// A newer version of the program wrote the file. Nothing was changed.
    case newerSchema(found: Int, known: Int)
    /// Another program's file has our name.
    case foreign
    case outOfMemory
    /// An SQLite error that only a bug in this program can cause.
    case misuse
  }

  package let kind: Kind
  package let path: String
  /// Details, such as the message of SQLite or the system.
  package let detail: String

  /// Whether only another program or another file helps: a start fails each time until then.
  package var lastsUntilReplaced: Bool {
    switch kind {
    case .newerSchema, .foreign: true
    default: false
    }
  }

  /// What to do, as a sentence.
  package var advice: String {
    switch kind {
    case .full:
      "Free space on the file system of \(path), or raise its quota or limit."
    case .readOnly:
      "Make \(path) and its directory writable for this user, and see that the file system is not mounted read-only."
    case .inaccessible:
      "Let --state-directory name a directory that this user may use."
    case .inputOutput:
      "Look into the kernel's log for errors of the disk."
    case .missing:
      "Put it back as it was, or restore a backup."
    case .replaced:
      "Put the state directory back as it was; or restart countdownd, which then knows only what it finds there."
    case .superseded:
      "Restart countdownd to continue with it, or move it away."
    case .corrupt:
      "`countdownctl state list FILE` prints what is readable; `sqlite3 FILE .recover` may find more. Or restore a backup."
    case .inUse:
      "Stop the other one, or give this one a --state-directory of its own."
    case .locked:
      "Close the program that has \(path) open; read a backup instead."
    case .newerSchema:
      "Run the newer version again, or restore a backup that this version made."
    case .foreign:
      "Move the file away, or let --state-directory name another directory."
    case .outOfMemory:
      "Give the daemon more memory."
    case .misuse:
      "This is a bug; please report it with this line."
    }
  }

  package var description: String { "\(problem). \(advice)" }

  /// What has happened, without advice.
  package var problem: String {
    let what =
      switch kind {
      case .full: "no space left for \(path)"
      case .readOnly: "cannot write \(path)"
      case .inaccessible: "cannot use \(path)"
      case .inputOutput: "input/output error at \(path)"
      case .missing: "\(path) is missing"
      case .replaced: "\(path) was replaced"
      case .superseded: "\(path) is a newer state than the one in use"
      case .corrupt: "\(path) is corrupt"
      case .inUse(let pid):
        "another countdownd uses this state directory (\(pid.map { "pid \($0)" } ?? "pid unknown")): \(path)"
      case .locked: "another program has \(path) locked"
      case .newerSchema(let found, let known):
        "\(path) was written by a newer version (format \(found), this version knows \(known))"
      case .foreign: "\(path) belongs to another program"
      case .outOfMemory: "out of memory at \(path)"
      case .misuse: "the store was used wrongly at \(path)"
      }
    return "\(what) (\(detail))"
  }

  package init(_ kind: Kind, _ path: String, _ detail: String) {
    self.kind = kind
    self.path = path
    self.detail = detail
  }

  static func newerSchema(
    found: Int, known: Int, of what: String, _ database: Database
  ) -> StoreError {
    let product = Meta.product(of: database).map { "\($0) wrote it last; " } ?? ""
    return StoreError(
      .newerSchema(found: found, known: known), database.path,
      "\(what); \(product)nothing was changed")
  }

  /// SQLITE_READONLY_DBMOVED, a macro that Swift does not import.
  private static let movedDatabase = SQLITE_READONLY | 4 << 8

  /// Creates the refusal to continue with an older state.
  init(_ missing: StateFiles, insteadOf files: StateFiles) {
    self.init(
      .missing, missing.database,
      """
      it was the newest state. `countdownctl state accept-loss \(files.directory)` gives it up, and \
      continues with \(files.database)
      """)
  }

  /// Creates an error from an SQLite result code. `systemError` is errno of the failed call, or 0.
  init(code: Int32, systemError: Int32, path: String, message: String) {
    let kind: Kind =
      switch code & 0xff {
      case SQLITE_READONLY where code == Self.movedDatabase:
        unsafe access(path, F_OK) == 0 ? .replaced : .missing
      case SQLITE_FULL: .full
      case SQLITE_READONLY, SQLITE_PERM: .readOnly
      case SQLITE_CANTOPEN: .inaccessible
      case SQLITE_IOERR:
        switch systemError {
        case ENOSPC, EDQUOT, EFBIG: .full
        case EROFS: .readOnly
        default: .inputOutput
        }
      case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
      case SQLITE_BUSY, SQLITE_LOCKED: .locked
      case SQLITE_NOMEM: .outOfMemory
      default: .misuse
      }
    let system = systemError == 0 ? "" : ": " + Self.text(systemError)
    self.init(kind, path, "\(message)\(system), SQLite code \(code)")
  }

  /// Creates an error from errno.
  init(systemError: Int32, path: String, doing: String) {
    let kind: Kind =
      switch systemError {
      case ENOSPC, EDQUOT, EFBIG: .full
      case EROFS, EACCES, EPERM: .readOnly
      case EIO: .inputOutput
      default: .inaccessible
      }
    self.init(kind, path, "\(doing): \(Self.text(systemError))")
  }

  private static func text(_ systemError: Int32) -> String {
    let text = unsafe String(cString: strerror(systemError))
    return systemError == EFBIG
      ? text + ", the process may write no larger ones (RLIMIT_FSIZE: ulimit -f, LimitFSIZE=)"
      : text
  }
}
