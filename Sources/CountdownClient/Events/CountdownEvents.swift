import NIOCore

/// The events of a subscription: see `CountdownClient.events(channels:patterns:)`.
public struct CountdownEvents: AsyncSequence, Sendable {
  public typealias Element = CountdownEvent
  public typealias Failure = CountdownClientError

  typealias Strategy = NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark
  typealias Producer = NIOThrowingAsyncSequenceProducer<
    CountdownEvent, any Error, Strategy, Subscription.Reader
  >

  /// Reading from the socket stops at `highWatermark` waiting events and resumes at `lowWatermark`.
  static let strategy = Strategy(lowWatermark: 64, highWatermark: 512)

  private let producer: Producer

  public struct AsyncIterator: AsyncIteratorProtocol {
    public typealias Failure = CountdownClientError

    fileprivate let base: Producer.AsyncIterator

    /// Returns the next event; nil after `close()`.
    public mutating func next() async throws(CountdownClientError) -> CountdownEvent? {
      do {
        return try await base.next()
      } catch {
        throw CountdownClientError(error)
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: producer.makeAsyncIterator())
  }

  static func make(
    path: String, name: String?, group: any EventLoopGroup, _ request: Subscription.Request
  ) -> (CountdownEvents, Subscription) {
    let subscription = Subscription(path: path, name: name, group: group, request)
    let sequence = Producer.makeSequence(
      elementType: CountdownEvent.self, backPressureStrategy: strategy, finishOnDeinit: true,
      delegate: Subscription.Reader(subscription: subscription))
    subscription.attach(sequence.source)
    return (CountdownEvents(producer: sequence.sequence), subscription)
  }
}
