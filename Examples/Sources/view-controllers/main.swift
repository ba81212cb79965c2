// A view controller whose timers, HUD and page in the daemon are removed with it.
//
//     swift run view-controllers
//
// The controller keeps only its handles. Its scope in the daemon owns everything that it starts,
// and closes when the controller is released, without a method to call.

import CountdownClient
import Foundation
import Synchronization

final class OrdersController: Sendable {
  static let alive = Atomic(0)

  private let handles = Mutex<[EventHandle]>([])
  private let seen = Mutex<Set<String>>([])

  init() { Self.alive.add(1, ordering: .relaxed) }
  deinit { Self.alive.subtract(1, ordering: .relaxed) }

  /// Does the work of `viewDidLoad`.
  func load(_ client: CountdownClient) async throws -> String {
    let scope = try await client.scope(for: self)
    handles.withLock {
      $0 = [
        client.onEvent(of: CountdownView.self, "orders", target: self) {
          $0.see($1, $2.state.rawValue)
        },
        client.onEvent(of: HUDView.self, "orders", target: self) { $0.see($1, $2.state.rawValue) },
        client.onEvent(of: TimerView.self, "orders", target: self) {
          $0.see($1, $2.state.rawValue)
        },
        client.onEvent(of: PageView.self, "orders", target: self) { $0.see($1, $2.state.rawValue) },
        client.onEvent(of: GateView.self, "orders", target: self) { $0.see($1, $2.state.rawValue) },
        client.onReady("orders", target: self) { controller, event in controller.see(event, "again")
        },
      ]
    }
    let owner = Owner.scope(scope.key)
    _ = try await client.startCountdown("orders", count: 2, every: .milliseconds(100), owner: owner)
    try await client.setTimer("orders", after: .milliseconds(50), every: .seconds(60), owner: owner)
    try await client.pageAppeared("orders", owner: owner)
    try await client.pageLoaded("orders", items: 3)
    _ = try await client.checkGate("orders", action: "open", owner: owner)
    return scope.key
  }

  private func see(_ event: CountdownEvent, _ state: String) {
    let line = "\(event.kind.rawValue) \(event.name): \(state)"
    if seen.withLock({ $0.insert(line).inserted }) { print(line) }
  }
}

/// Returns the number of live controllers, and of their scopes and entities in the daemon.
func left(_ scope: String, _ client: CountdownClient) async throws -> [Int] {
  [
    OrdersController.alive.load(ordering: .relaxed),
    try await client.scope(scope) == nil ? 0 : 1,
    try await client.countdowns(matching: "orders").elements.count,
    try await client.timers(matching: "orders").elements.count,
    try await client.pages(matching: "orders").elements.count,
    try await client.gates(matching: "orders").elements.count,
  ]
}

let path = ProcessInfo.processInfo.environment["COUNTDOWND_SOCKET"] ?? CountdownClient.defaultPath
do {
  let client = try await CountdownClient.connect(path: path)
  var controller: OrdersController? = OrdersController()
  let scope = try await controller!.load(client)
  try await Task.sleep(for: .milliseconds(500))
  print(
    "on screen; controllers, scopes, countdowns, timers, pages, gates:",
    try await left(scope, client))
  controller = nil
  try await Task.sleep(for: .milliseconds(500))
  let rest = try await left(scope, client)
  print("gone; controllers, scopes, countdowns, timers, pages, gates:", rest)
  await client.close()
  exit(rest.allSatisfy { $0 == 0 } ? 0 : 1)
} catch {
  print("countdownd: \(error)")
  exit(1)
}
