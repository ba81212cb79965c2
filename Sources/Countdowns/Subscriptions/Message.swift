/// An event as it is sent to those who listen. Its parts are lent for as long as it is sent.
struct Message {
  let kind: EntityKind
  let key: UnsafeRawBufferPointer
  /// The line of JSON.
  let payload: UnsafeRawBufferPointer
  let sequence: Int64
  /// Whether the newest alone matters to who does not read as fast as they come.
  let canBeMerged: Bool

  /// As subscribers name it.
  var channel: [UInt8] { kind.channelPrefix + key }

  init(
    _ publication: Publication, key: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
  ) {
    kind = publication.kind
    self.key = key
    self.payload = payload
    sequence = publication.event.sequence
    canBeMerged = publication.event.name.canBeMerged
  }

  init(_ event: TimedEvent, key: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer) {
    kind = .countdown
    self.key = key
    self.payload = payload
    sequence = event.sequence
    canBeMerged = !event.isReady
  }
}
