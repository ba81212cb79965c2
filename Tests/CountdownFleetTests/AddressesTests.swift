import Countdowns
import Dispatch
import DispatchTimers
import Runtime
import Testing

@testable import CountdownFleet

/// Looking up names, with name servers that a test stops.
struct AddressesTests {
  /// Name servers that answer once they are let.
  private final class NameServers: @unchecked Sendable {
    let slow = DispatchSemaphore(value: 0)
    private let queue = DispatchQueue(label: "test")
    private var isDown = false

    func fail() { queue.sync { isDown = true } }

    func lookUp(_ node: FleetSettings.Node) -> Addresses.Found {
      if node.host.hasPrefix("slow") { slow.wait() }
      return queue.sync { isDown } ? .failure(FleetError("no name server")) : .success([])
    }
  }

  private let loop: EventLoop
  private let addresses: Addresses
  private let names = NameServers()

  init() throws {
    loop = try EventLoop()
    addresses = Addresses(loop, lookUp: names.lookUp)
  }

  private func wait(_ isDone: () -> Bool) throws {
    let end = ContinuousClock.now + .seconds(30)
    while !isDone() {
      try #require(ContinuousClock.now < end)
      loop.schedule(inMilliseconds: 10) {}
      loop.runOnce(waits: true)
    }
  }

  private func node(_ host: String) -> FleetSettings.Node { .init(host: host, port: 1) }

  @Test func aSlowNameHoldsUpNoOtherAndItsLateAddressesAreUsed() throws {
    var found: [String] = []
    addresses.find(node("slow")) { _ in found.append("slow") }
    addresses.find(node("fast")) { _ in found.append("fast") }
    try wait { !found.isEmpty }
    #expect(found == ["fast"])
    // Who asks again does not begin another lookup.
    addresses.find(node("slow")) { _ in found.append("slow") }
    names.slow.signal()
    try wait { found.count == 3 }
    addresses.find(node("slow")) { _ in found.append("at once") }
    #expect(found.last == "at once")
    names.slow.signal()
  }

  @Test func theLastAddressesAreUsedWhileNoNameServerAnswers() throws {
    var count = 0
    addresses.find(node("a")) { _ in count += 1 }
    try wait { count == 1 }
    names.fail()
    var failure: FleetError?
    addresses.find(node("b")) { if case .failure(let error) = $0 { failure = error } }
    try wait { failure != nil }
    for _ in 0..<3 {
      var isFound = false
      addresses.find(node("a")) { if case .success = $0 { isFound = true } }
      #expect(isFound)
      loop.runOnce(waits: false)
    }
  }

  /// Names that wait for a thread are looked up, too.
  @Test func moreNamesThanThreadsAreAllFound() throws {
    var found = 0
    for number in 0..<50 { addresses.find(node("slow\(number)")) { _ in found += 1 } }
    for _ in 0..<50 { names.slow.signal() }
    try wait { found == 50 }
  }
}
