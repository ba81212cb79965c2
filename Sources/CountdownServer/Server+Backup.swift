import CountdownStore
import Countdowns

/// Only the daemon may use the state directory, so a copy of the state travels over the socket.
extension Server {
  package func beginBackup(for connection: UInt64) throws(StateError) -> Int64 {
    guard let writer = state.writer else {
      throw StateError(
        "ERR the state is in memory only, so there is nothing to back up; durability in the "
          + "configuration can change that")
    }
    guard backup == nil else {
      throw StateError("LIMIT one backup at a time; try again when the other one is done")
    }
    lastBackup += 1
    let new = Backup(id: lastBackup, for: connection, path: writer.options.backupPath)
    backup = new
    nonisolated(unsafe) let begun = new
    writer.backUp(to: new.path, at: isReadOnly ? nil : reading) { [self] error in
      unsafe begun.made(error, inMemory: state.writer?.upkeep.takeCopyInMemory())
      // Not earlier: another backup would have the same path.
      if unsafe begun.isEnded { backup = nil }
    }
    return new.id
  }

  package func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64? {
    try find(id, connection).size
  }

  package func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8] {
    let backup = try find(id, connection)
    let bytes = try backup.read(at: offset, count: count)
    if let size = try backup.size, offset < size, offset + Int64(bytes.count) == size {
      state.change { $0.lastBackup = now.wall.microseconds }
    }
    return bytes
  }

  package func endBackup(_ id: Int64, of connection: UInt64) throws(StateError) {
    end(try find(id, connection))
  }

  package func endBackup(of connection: UInt64) {
    if let backup, backup.connection == connection { end(backup) }
  }

  private func end(_ ended: Backup) {
    ended.end()
    if ended.isMade { backup = nil }
  }

  private func find(_ id: Int64, _ connection: UInt64) throws(StateError) -> Backup {
    guard let backup, backup.id == id, backup.connection == connection, !backup.isEnded else {
      throw StateError("NOTFOUND no backup \(id) of this connection; BACKUP BEGIN makes one")
    }
    return backup
  }
}
