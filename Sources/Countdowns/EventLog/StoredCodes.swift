/// What stored events write as a number. A number is never given another meaning; new ones come at
/// the end.
///
/// A `switch` for writing, which takes no look-up; what is read is found by what is written.
protocol StoredCode: CaseIterable {
  /// Nil for what is never stored.
  var storedCode: UInt8? { get }
}

extension StoredCode {
  /// By their numbers, which leave none out.
  static func byStoredCode() -> [Self] {
    let stored = allCases.filter { $0.storedCode != nil }.sorted {
      $0.storedCode! < $1.storedCode!
    }
    precondition(stored.enumerated().allSatisfy { $0.offset == Int($0.element.storedCode!) })
    return stored
  }
}

extension Event.Name: StoredCode {
  var storedCode: UInt8? {
    switch self {
    case .started: 0
    case .ready: 1
    case .paused: 2
    case .resumed: 3
    case .retimed: 4
    case .cancelled: 5
    case .refunded: 6
    case .expired: 7
    case .locked: 8
    case .passed: 9
    case .set: 10
    case .fired: 11
    case .done: 12
    case .pending: 13
    case .run: 14
    case .dismissed: 15
    case .opened: 16
    case .closed: 17
    case .willAppear: 18
    case .didAppear: 19
    case .updated: 20
    case .willDisappear: 21
    case .didDisappear: 22
    case .snapshot, .tick, .refused, .touched, .accepted, .emitted, .swiping, .progress, .finished,
      .loading, .loaded, .failed:
      nil
    }
  }
}

extension Event.Reason: StoredCode {
  var storedCode: UInt8? {
    switch self {
    case .cooldown: 0
    case .window: 1
    case .exhausted: 2
    case .duplicate: 3
    case .cancelled: 4
    case .ownerGone: 5
    case .replaced: 6
    case .expired: 7
    case .locked: 8
    case .passed: 9
    case .leading: 10
    case .quiet: 11
    case .maximumWait: 12
    case .flush: 13
    case .closed, .parentClosed, .rate, .login, .transitioning, .root, .disabled, .outsideEdge,
      .direction, .notTransitioning, .timedOut, .notLoading, .notFailed:
      nil
    }
  }
}

extension CountdownView.State: StoredCode {
  var storedCode: UInt8? {
    switch self {
    case .counting: 0
    case .paused: 1
    case .ready: 2
    case .idle: 3
    }
  }
}
