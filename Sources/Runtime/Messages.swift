import Logging

/// Log messages that programs may look for: each has an id that stays when its text changes.
/// docs/reference/log-messages.md lists them.
package enum LogMessage: String, CaseIterable, Sendable {
  case started = "73cb9d7caefb4861900749e15f29d046"
  case cannotStart = "5d1f9c0de08c4b0f9a3c1f0a6c6f7b42"
  case uncleanEnd = "5c9abb7a74f345a2b7bdbcaade1a08be"
  case ready = "1296cce2cfff46f5997fdd9bc923c531"
  case reloaded = "4a171f9e048645b09e9f9fd68e409a44"
  case reloadRefused = "943d138b0a47447aa5e6050b6f8ca05b"
  case readOnly = "777de9bb737e4d78a2a97439e3ca5e7b"
  case writable = "a12a07af2c6e43458f4b4d6017755a7f"
  case foldingFails = "f02d28c91a594c399c815a179bc6b5f7"
  case foldingWorks = "ef4c32145c1d425f82e9d9ee7aa6af0f"
  case cannotStore = "12b2138444c1461d87d1355bc5f5dd0e"
  case stateLoaded = "7dc4c5e8a0f84b1d9b6a52e3f17c0d94"
  case stateRestored = "e1b3a6f2c85d4f7096d41c7ab8305e29"
  case stateReplaced = "49f62b56f7cf4793a7e5730fbfc86548"
  case changesLost = "2590d8d239454ada9d65c3ae461ec9a2"
  case eventsLost = "a3d0203f618c4a2ea48a1bd76aeecdfb"
  case stateEmptied = "1db8bf6a119e4d709fa1c56424c75528"
  case logSetAside = "1d653cc71f374434ba2abd5a8cbe116e"
  case damageAcknowledged = "e0deb44ba3864581bf4ba7addc09c43f"
  case foreignChange = "2f0d0c4d5b7f4e0c8a5c6b1e9d3a7f10"
  case cleared = "b4676413b45e48048b30755fe1f58598"
  case outputLimit = "57bd005e9d824f488f041d9359318d20"
  case refusedAtLimit = "4004a1558bb64aa4944bd38fe1422ef2"
  case fewDescriptors = "4d003912fb8a450bb0d6b24c3bb48516"
  case linesLost = "19bbba6663244074a9641af99518e3d8"
  case refusedByRules = "fed578211d3142aab19d2ec460284343"
  case limitBlocked = "6f1d5b9e0c7a4b62a3d8e4915c20f7ab"
  case limitsDropped = "0c4a7be1d93f4f28a6b1e05c72d8f394"
  case forgiven = "b3a90e6d52f14c7e9d0182c64b7fe135"
  case journalFails = "5f0e6a1c27d94b0e8a7d3c9b41f2e680"
  case journalWorks = "c81d97e2b5344f6f9d20a6e4073b15fd"
  case fleetConnected = "ac143bc1c3bd4e3f972af4e720da708f"
  case fleetDisconnected = "bb863db737f9457a84304dc6d99a8815"
  case fleetRefused = "fc8b41cabba745279eff8cb8f2191110"
  case fleetRefuses = "0d2f6b1c94e84a7f8c53e19ab7d0426e"
  case fleetAccepts = "6a7e5f30b8d1441c9f02c4d8e31b97a5"
  case fleetUnread = "91c4d7e20a5b4f6fb38e6d15f7a2c08b"
  case fleetRead = "f3b80e6791d24c5a9de70c42b65a18f4"
  case fleetLost = "9accff9861ec42c387f6cd34062a1b0c"
  case fleetClosed = "1d7a93c05be84f61a2c6e80f43b9d712"
  case fleetBegun = "60b2f8e91c4d4a7f95d30ea7c81264fb"
  case fleetSecrets = "93e07ad56f214c88b1f5d20c9e7746a3"
  case fleetSentinels = "a81c5f3e0d7942b6869f14e2cb30d57e"
  case fleetClock = "d7dc8a35389742a0af58db53d774a155"
  case fleetReplicas = "51ee5a0eb0464504af40fe7e1ed5e143"
  case fleetReplicaForgotten = "787f210c01ec47aabe639f236f3bc6ff"
  case fleetBehind = "288e1ee5024443ef9e021201dfc207ac"
  case fleetUnreadable = "8aaf242cbfaa4c4294db9305745bbf6f"
  case fleetHides = "a30880fb1c9c43f99cd8dd61105afa88"
  case fleetPolicies = "5b0c1f1f4a4e4e0d9f6a7d0a3c2b9e61"
  case fleetLease = "e7c9b1a54f0d4c3b8a26d90f7e51c3d8"

  /// The metadata key of the id.
  package static let metadataKey = "message-id"
}

extension Logger {
  package func log(
    _ message: LogMessage, _ level: Logger.Level, _ text: Logger.Message,
    _ metadata: Logger.Metadata = [:], file: String = #fileID, function: String = #function,
    line: UInt = #line
  ) {
    var metadata = metadata
    metadata[LogMessage.metadataKey] = .string(message.rawValue)
    log(level: level, text, metadata: metadata, file: file, function: function, line: line)
  }
}
