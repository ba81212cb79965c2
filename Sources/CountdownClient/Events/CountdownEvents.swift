import NIOCore
import Synchronization

/// The events of a subscription: see `Client.events(_:since:)`.
public struct CountdownEvents: AsyncSequence, Sendable {
  public typealias Element = CountdownEvent
  public typealias Failure = any Error

  typealias Strategy = NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark
  typealias Producer = NIOThrowingAsyncSequenceProducer<
    CountdownEvent, any Error, Strategy, Subscription.Reader
  >

  /// Reading from the socket stops at `highWatermark` waiting events and resumes at `lowWatermark`.
  static let strategy = Strategy(lowWatermark: 64, highWatermark: highWatermark)
  static let highWatermark = 512

  private let producer: Producer
  private let isIterated = Flag()

  private final class Flag: Sendable {
    private let isRaised = Atomic(false)

    /// Returns whether it was raised before.
    func raise() -> Bool { isRaised.exchange(true, ordering: .relaxed) }
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    /// Nil if the sequence was iterated before.
    fileprivate let base: Producer.AsyncIterator?

    /// Returns the next event; nil after `close()`.
    public mutating func next() async throws -> CountdownEvent? {
      guard let base else {
        throw CountdownClientError.invalidUse("an event sequence can be iterated once")
      }
      do {
        let event = try await base.next()
        if event == nil { try Task.checkCancellation() }
        return event
      } catch {
        throw CountdownClientError.converting(error)
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: isIterated.raise() ? nil : producer.makeAsyncIterator())
  }

  static func make(
    path: String, name: String?, timeout: Duration?, group: any EventLoopGroup,
    _ request: Subscription.Request
  ) -> (CountdownEvents, Subscription) {
    let subscription = Subscription(
      path: path, name: name, timeout: timeout, group: group, request)
    let sequence = Producer.makeSequence(
      elementType: CountdownEvent.self, backPressureStrategy: strategy, finishOnDeinit: true,
      delegate: Subscription.Reader(subscription: subscription))
    subscription.attach(sequence.source)
    return (CountdownEvents(producer: sequence.sequence), subscription)
  }
}
