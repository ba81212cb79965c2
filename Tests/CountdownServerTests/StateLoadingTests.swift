import CountdownStore
import Foundation
import Synchronization
import Testing

@testable import CountdownServer

@Suite struct StateLoadingTests {
  /// A daemon that is asked to end while it loads leaves portions untaken.
  @Test(arguments: 1...5)
  func loadingMayEndWithUnreadPortions(_ taken: Int) throws {
    let directory = NSTemporaryDirectory() + "countdown-loading-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let options = Store.Options(directory: directory, durability: .process, product: "test")
    let now = StoreClock.Reading(
      bootID: "boot", bootMicroseconds: 1_000_000, wallMicroseconds: 1_790_000_000_000_000)
    let delivered = Atomic(0)
    let done = DispatchSemaphore(value: 0)
    var loading: StateLoading? = StateLoading(try Store(options, at: now)) { _ in
      delivered.add(1, ordering: .relaxed)
    }
    // One for each kind, of which four go ahead.
    for _ in 0..<taken { loading?.taken() }
    loading?.run { error in
      #expect(error == nil)
      done.signal()
    }
    done.wait()
    #expect(delivered.load(ordering: .relaxed) == 5)
    loading = nil
  }
}
