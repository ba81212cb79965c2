import Wire

/// An event as it is sent to those who listen. Its parts are lent for as long as it is sent.
struct Message: ~Escapable {
  let kind: EntityKind
  let key: Span<UInt8>
  /// The line of JSON.
  let payload: Span<UInt8>
  let sequence: Int64
  /// Whether the newest alone matters to who does not read as fast as they come.
  let canBeMerged: Bool
  /// Whether it shows how something is that may turn out not to be so.
  let isUncertainSnapshot: Bool
  /// Whether what it tells of may have to be taken back.
  let isProvisional: Bool

  /// As subscribers name it.
  var channel: [UInt8] { kind.channelPrefix + key }

  @_lifetime(copy key, copy payload)
  init(
    _ publication: Publication, key: Span<UInt8>, payload: Span<UInt8>,
    isUncertainSnapshot: Bool
  ) {
    kind = publication.kind
    self.key = key
    self.payload = payload
    sequence = publication.event.sequence
    canBeMerged = publication.event.name.canBeMerged
    self.isUncertainSnapshot = isUncertainSnapshot
    isProvisional = isUncertainSnapshot || publication.event.tellsOfDurableChange
  }

  @_lifetime(copy key, copy payload)
  init(_ event: TimedEvent, key: Span<UInt8>, payload: Span<UInt8>) {
    kind = .countdown
    self.key = key
    self.payload = payload
    sequence = event.sequence
    canBeMerged = !event.isReady
    isUncertainSnapshot = false
    isProvisional = event.tellsOfDurableChange
  }
}
