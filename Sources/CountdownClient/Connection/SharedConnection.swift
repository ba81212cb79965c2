/// What may be sent on a connection that all callers share.
extension Client {
  /// Refuses commands after which replies would go to the wrong callers, or none would come.
  static func check(_ commands: [[[UInt8]]]) throws(CountdownClientError) {
    var isTransaction = false
    for command in commands {
      guard let first = command.first else { throw .invalidUse("a command has a name") }
      let name = word(first)
      switch name {
      case _ where answersWithPushes(first): throw .invalidUse("subscribe with events(_:since:)")
      case "MULTI" where !isTransaction: isTransaction = true
      case "EXEC" where isTransaction, "DISCARD" where isTransaction: isTransaction = false
      case "MULTI", "EXEC", "DISCARD":
        throw .invalidUse("send a transaction with pipeline(_:), from MULTI to EXEC")
      case "CLIENT" where command.count > 1 && word(command[1]) == "REPLY":
        throw .invalidUse("all callers share the connection, and need replies")
      case "HELLO", "MONITOR", "QUIT", "RESET", "WATCH":
        throw .invalidUse("all callers share the connection; \(name) would break it")
      default: break
      }
    }
    if isTransaction {
      throw .invalidUse("send a transaction with pipeline(_:), from MULTI to EXEC")
    }
  }

  /// Returns whether pushes answer a command in RESP3, so that no reply follows.
  package static func answersWithPushes(_ command: some Collection<UInt8>) -> Bool {
    ["SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"].contains(word(command))
  }

  private static func word(_ bytes: some Collection<UInt8>) -> String {
    String(decoding: bytes, as: UTF8.self).uppercased()
  }
}
