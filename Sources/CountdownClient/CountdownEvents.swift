import NIOCore

/// The events that `CountdownClient.events(channels:patterns:)` subscribed to, as they come.
public struct CountdownEvents: AsyncSequence, Sendable {
  public typealias Element = CountdownEvent

  typealias Strategy = NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark
  typealias Producer = NIOThrowingAsyncSequenceProducer<
    CountdownEvent, any Error, Strategy, Subscription.Reader
  >

  /// How many events may wait for their reader before the socket is no longer read, and how few
  /// have to be left for it to be read again.
  static let strategy = Strategy(lowWatermark: 64, highWatermark: 512)

  private let producer: Producer

  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let base: Producer.AsyncIterator

    /// The next event; nil after `close()`.
    public mutating func next() async throws -> CountdownEvent? {
      try await base.next()
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: producer.makeAsyncIterator())
  }

  static func make(
    path: String, name: String?, group: any EventLoopGroup, channels: [String],
    patterns: [String], duties: [[String]] = [], isPersistent: Bool = false
  ) -> (CountdownEvents, Subscription) {
    let subscription = Subscription(
      path: path, name: name, group: group, channels: channels, patterns: patterns,
      duties: duties, isPersistent: isPersistent)
    let sequence = Producer.makeSequence(
      elementType: CountdownEvent.self, backPressureStrategy: strategy, finishOnDeinit: true,
      delegate: Subscription.Reader(subscription: subscription))
    subscription.attach(sequence.source)
    return (CountdownEvents(producer: sequence.sequence), subscription)
  }
}
