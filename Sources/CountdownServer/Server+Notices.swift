import CountdownFleet
import Countdowns
import Logging
import Runtime

extension Server {
  package func note(_ notice: HostNotice) {
    func text(_ bytes: [UInt8]) -> Logger.MetadataValue {
      .string(String(decoding: bytes, as: UTF8.self))
    }
    switch notice {
    case .limitReached(let name, let value, let client, let key):
      var about: Logger.Metadata = [
        "uid": "\(client.uid)", "connection": "\(client.connection)",
      ]
      about["key"] = key.map(text)
      logger.log(
        .refusedAtLimit, .warning, "command refused: limits.\(name) is \(value) and reached", about)
    case .foreignChange(let change, let client):
      logger.log(
        .foreignChange, .notice, "an entity of another user was changed",
        [
          "uid": "\(client.uid)", "connection": "\(client.connection)",
          "command": .string(change.command), "maker": "\(change.maker)",
          "key": text(Array("\(change.kind.name):".utf8) + change.key),
          "allowed-by": .string(change.permission),
        ])
      if hooks.isLogBehind() { connection(client.connection)?.waitForLog() }
    case .cleared(let count, let kind, let pattern, let client):
      logger.log(
        .cleared, .notice, "entities were ended by an administrator",
        [
          "uid": "\(client.uid)", "kind": "\(kind.name)", "count": "\(count)",
          "match": text(pattern),
        ])
    case .engine(.blocked(let key, let passes, let passed)):
      logger.log(
        .limitBlocked, .warning,
        "limit blocked for \(passed.block.text), as only \(passes.entered) of \(passes.of) codes were entered",
        ["key": text(key), "entered": "\(passes.entered)", "of": "\(passes.of)"])
    case .engine(.dropped(let name, let count)):
      logger.log(
        .limitsDropped, .warning,
        "stored limits dropped: '\(name)' has one key for all now, '\(name):'",
        ["limit": .string(name), "count": "\(count)"])
    case .engine(.forgiven(let key, let withLimits, let uid)):
      logger.log(
        .forgiven, .notice,
        "sends and codes forgiven\(withLimits ? ", also by their limits" : "")",
        ["key": text(key), "uid": "\(uid)"])
    case .fleet(let notice): fleetServers?.note(notice)
    }
  }
}
