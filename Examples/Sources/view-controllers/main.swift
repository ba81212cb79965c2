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

  private let scope: ScopeHandle
  private let handles = Mutex<[EventHandle]>([])
  private let seen = Mutex<Set<String>>([])

  init(_ client: Client) async throws {
    scope = try await client.openScope()
    Self.alive.add(1, ordering: .relaxed)
  }

  deinit { Self.alive.subtract(1, ordering: .relaxed) }

  /// Does the work of `viewDidLoad`.
  func load(_ client: Client) async throws -> String {
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
    let owner = scope.owner
    _ = try await client.countdown.start(
      "orders", count: 2, every: .milliseconds(100), owner: owner)
    try await client.timer.set(
      "orders", after: .milliseconds(50), every: .seconds(60), owner: owner)
    try await client.page.appear("orders", owner: owner)
    try await client.page.loaded("orders", items: 3)
    _ = try await client.gate.check("orders", action: "open", owner: owner)
    return scope.key
  }

  private func see(_ event: CountdownEvent, _ state: String) {
    let line = "\(event.kind.rawValue) \(event.name): \(state)"
    if seen.withLock({ $0.insert(line).inserted }) { print(line) }
  }
}

/// Returns the number of live controllers, and of their scopes and entities in the daemon.
func left(_ scope: String, _ client: Client) async throws -> [Int] {
  [
    OrdersController.alive.load(ordering: .relaxed),
    try await client.scope.get(scope) == nil ? 0 : 1,
    try await client.countdown.list(match: "orders").elements.count,
    try await client.timer.list(match: "orders").elements.count,
    try await client.page.list(match: "orders").elements.count,
    try await client.gate.list(match: "orders").elements.count,
  ]
}

do {
  let client = try await Client.connect()
  var controller: OrdersController? = try await OrdersController(client)
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
