import Wire

/// An event as it is sent to subscribers. Its parts are lent for as long as it is sent.
struct Message: ~Escapable {
  let kind: EntityKind
  let key: Span<UInt8>
  /// The line of JSON.
  let payload: Span<UInt8>
  let sequence: Int64
  /// Whether a newer event replaces this one for a client that reads too slowly.
  let canBeMerged: Bool

  /// The channel, as subscribers name it.
  var channel: [UInt8] { kind.channelPrefix + key }

  @_lifetime(copy key, copy payload)
  init(
    _ publication: Publication, key: Span<UInt8>, payload: Span<UInt8>
  ) {
    kind = publication.kind
    self.key = key
    self.payload = payload
    sequence = publication.event.sequence
    canBeMerged = publication.event.name.canBeMerged
  }

  @_lifetime(copy key, copy payload)
  init(_ event: WrittenEvent, key: Span<UInt8>, payload: Span<UInt8>) {
    kind = event.kind
    self.key = key
    self.payload = payload
    sequence = event.sequence
    canBeMerged = event.canBeMerged
  }

  @_lifetime(copy key, copy payload)
  init(_ event: TimedEvent, key: Span<UInt8>, payload: Span<UInt8>) {
    kind = .countdown
    self.key = key
    self.payload = payload
    sequence = event.sequence
    canBeMerged = !event.isReady
  }
}
