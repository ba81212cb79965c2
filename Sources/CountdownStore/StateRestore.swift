import Glibc

/// Says which state of a directory the next daemon continues with.
///
/// Keeps daemons away meanwhile. All files belong to the owner of the directory.
package enum StateRestore {
  private static let chunk = 1 << 20

  /// Copies a backup under the next number. The states that are there stay as they are.
  ///
  /// - Returns: the path of the new state.
  package static func restore(_ file: String, to directory: String) throws(StoreError) -> String {
    let (owner, lock) = try enter(directory)
    defer { withExtendedLifetime(lock) {} }
    let target = try StateFiles.unused(in: directory)
    // A start removes it if this process is killed.
    let partial = StateFiles.backup(in: directory)
    do throws(StoreError) {
      try copy(file, to: partial, owner)
      try StateFiles.move(partial, to: target.database)
    } catch {
      unsafe unlink(partial)
      throw error
    }
    try target.synchronize()
    var history = History(directory: directory)
    let absolute = unsafe realpath(file, nil)
    defer { unsafe free(absolute) }
    history.restored = unsafe absolute.map { unsafe String(cString: $0) } ?? file
    // Only the log of the next start has it.
    try? history.write()
    return target.database
  }

  /// What was given up, and what the next daemon continues with.
  package struct AcceptedLoss {
    package var missing: String
    package var state: String
  }

  /// Gives up the newest state, whose file is missing. The next daemon continues with the newest
  /// one that is left, and reports the loss. Can be repeated if it is interrupted.
  ///
  /// - Returns: nil if no state is missing.
  package static func acceptLoss(
    in directory: String, atUnixMicroseconds now: Int64
  ) throws(StoreError) -> AcceptedLoss? {
    let (_, lock) = try enter(directory)
    defer { withExtendedLifetime(lock) {} }
    let files = try StateFiles(directory: directory)
    guard let missing = try files.missingNewer, let number = files.number else { return nil }
    var damage = try DamageRecord(directory: directory)
    try damage.note(
      "\(missing.database) was missing, and it was accepted to continue with \(files.database)",
      atUnixMicroseconds: now)
    for segment in try files.newerSegments() {
      try StateFiles.move(segment, to: files.freeName(segment, "lost", atUnixMicroseconds: now))
    }
    var numbers = try Numbers(in: directory)
    numbers.state = number
    // Syncs the directory, too.
    try numbers.write(in: directory)
    return AcceptedLoss(missing: missing.database, state: files.database)
  }

  private static func enter(
    _ directory: String
  ) throws(StoreError) -> (owner: stat, lock: DirectoryLock) {
    var owner = stat()
    guard unsafe stat(directory, &owner) == 0 else {
      throw StoreError(systemError: errno, path: directory, doing: "open")
    }
    let lock = try DirectoryLock(directory)
    // A lock file that was made just now must be the daemon's, too.
    _ = unsafe chown(directory + "/lock", owner.st_uid, owner.st_gid)
    return (owner, lock)
  }

  private static func copy(
    _ file: String, to partial: String, _ owner: stat
  ) throws(StoreError) {
    let source = unsafe open(file, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { throw StoreError(systemError: errno, path: file, doing: "open") }
    defer { close(source) }
    let copy = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard copy >= 0 else { throw StoreError(systemError: errno, path: partial, doing: "open") }
    defer { close(copy) }
    var bytes = [UInt8](repeating: 0, count: chunk)
    while true {
      let count = unsafe read(source, &bytes, bytes.count)
      guard count >= 0 else { throw StoreError(systemError: errno, path: file, doing: "read") }
      guard count > 0 else { break }
      let written = unsafe write(copy, bytes, count)
      guard written == count else {
        throw StoreError(
          systemError: written < 0 ? errno : ENOSPC, path: partial, doing: "write")
      }
    }
    guard fchown(copy, owner.st_uid, owner.st_gid) == 0, fsync(copy) == 0 else {
      throw StoreError(systemError: errno, path: partial, doing: "write")
    }
  }
}
