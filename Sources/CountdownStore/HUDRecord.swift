/// A screen with what is shown on its levels, as it is kept.
package struct HUDRecord: StoredRecord, Equatable, Sendable {
  /// Its place in the engine's table, and its row id.
  package var index: UInt32
  /// The screen.
  package var key: [UInt8]
  /// Of what is shown in front.
  package var generation: Int64
  package var uid: UInt32
  /// When time next means something, on the store's clock; nil while it waits for somebody.
  package var deadlineMicroseconds: Int64?
  /// The text of what is shown in front: for whoever reads the file.
  package var status: [UInt8]?
  /// All levels, encoded by the engine; times therein are on the store's clock.
  package var state: [UInt8]

  package init(
    index: UInt32, key: [UInt8], generation: Int64, uid: UInt32,
    deadlineMicroseconds: Int64? = nil, status: [UInt8]? = nil, state: [UInt8]
  ) {
    self.index = index
    self.key = key
    self.generation = generation
    self.uid = uid
    self.deadlineMicroseconds = deadlineMicroseconds
    self.status = status
    self.state = state
  }

  // MARK: Row

  static let table = "huds"
  static let columns = [
    "id", "key", "generation", "uid", "deadline_store_us", "status", "state",
  ]

  func bind(to row: Statement) {
    row.bind(1, Int64(index))
    row.bind(2, key)
    row.bind(3, generation)
    row.bind(4, Int64(uid))
    row.bind(5, deadlineMicroseconds)
    row.bind(6, status)
    row.bind(7, state)
  }

  init?(row: Statement) {
    guard let index = row.place(0), let uid = UInt32(exactly: row.number(3))
    else { return nil }
    self.index = index
    key = row.bytes(1)
    generation = row.number(2)
    self.uid = uid
    deadlineMicroseconds = row.optionalNumber(4)
    status = row.optionalBytes(5)
    state = row.bytes(6)
  }
}
