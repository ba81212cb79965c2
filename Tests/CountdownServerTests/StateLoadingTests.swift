import CountdownStore
import Foundation
import Synchronization
import Testing

@testable import CountdownServer

@Suite struct StateLoadingTests {
  /// A daemon that is asked to end while it loads leaves portions untaken.
  @Test(arguments: [2, 4])
  func loadingMayEndWithUnreadPortions(_ taken: Int) throws {
    let kept = try KeptEngine()
    defer { kept.remove() }
    for number in 0..<17_000 { try kept.start("\(number)") }
    kept.store()
    kept.end()
    let options = Store.Options(directory: kept.directory, durability: .process, product: "test")
    let now = StoreClock.Reading(bootID: "boot-1", kept.now)
    let delivered = Atomic(0)
    let done = DispatchSemaphore(value: 0)
    var loading: StateLoading? = StateLoading(try Store(options, at: now)) { _ in
      delivered.add(1, ordering: .relaxed)
    }
    // Five of entities and one of events, of which four go ahead.
    for _ in 0..<taken { loading?.taken() }
    loading?.run { error in
      #expect(error == nil)
      done.signal()
    }
    done.wait()
    #expect(delivered.load(ordering: .relaxed) == 6)
    loading = nil
  }
}
