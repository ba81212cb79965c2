/// Properties that many countdowns share: the plan, the user and the texts of the button.
struct Terms: ShardKey {
  var plan: Countdown.Plan
  var uid: UInt32
  var titles: Titles?

  static func == (a: Terms, b: Terms) -> Bool {
    a.plan == b.plan && a.uid == b.uid && (a.titles === b.titles || a.titles == b.titles)
  }

  /// Very many terms differ in their titles only, or in their plans.
  var shard: UInt8 { UInt8(truncatingIfNeeded: hashValue) }
}

/// The texts of a countdown's button.
final class Titles: Hashable {
  let counting: [UInt8]?
  let ready: [UInt8]?

  private init(counting: [UInt8]?, ready: [UInt8]?) {
    self.counting = counting
    self.ready = ready
  }

  /// Returns nil, without an allocation, if there are none.
  static func of(counting: [UInt8]?, ready: [UInt8]?) -> Titles? {
    counting == nil && ready == nil ? nil : Titles(counting: counting, ready: ready)
  }

  /// Returns the texts of START or, where it has none, of its policy.
  static func of(_ start: CountdownStart) -> Titles? {
    guard let rules = start.policy?.rules else {
      return of(counting: start.title, ready: start.readyTitle)
    }
    return of(counting: start.title ?? rules.title, ready: start.readyTitle ?? rules.readyTitle)
  }

  static func == (a: Titles, b: Titles) -> Bool { a.counting == b.counting && a.ready == b.ready }

  func hash(into hasher: inout Hasher) {
    hasher.combine(counting)
    hasher.combine(ready)
  }
}

/// The terms in use, each stored once for all countdowns that share them.
struct TermsTable: ~Copyable {
  /// Identifies terms for as long as a countdown uses them.
  typealias ID = UInt32

  private struct Entry {
    var terms: Terms
    var users: Int
  }

  private var entries: ContiguousArray<Entry?> = []
  /// The most used fields of an entry, without references, which would have to be counted.
  private struct Common {
    var plan: Countdown.Plan
    var uid: UInt32
    var hasTitles: Bool

    init(_ terms: Terms) {
      (plan, uid, hasTitles) = (terms.plan, terms.uid, terms.titles != nil)
    }
  }
  private var common: ContiguousArray<Common> = []
  private var free: [ID] = []
  private var known = Shards<Terms, ID>()
  /// The terms that were taken last: usually they are also taken next.
  private var last: ID?

  var count: Int { known.count }

  subscript(id: ID) -> Terms {
    _read { yield entries[Int(id)]!.terms }
  }

  func plan(_ id: ID) -> Countdown.Plan { common[Int(id)].plan }
  func uid(_ id: ID) -> UInt32 { common[Int(id)].uid }
  func titles(_ id: ID) -> Titles? {
    common[Int(id)].hasTitles ? entries[Int(id)]!.terms.titles : nil
  }
  func hasTitles(_ id: ID) -> Bool { common[Int(id)].hasTitles }

  /// Returns the ID of terms for one more countdown. O(1).
  mutating func take(_ terms: Terms) -> ID {
    if let last, entries[Int(last)]!.terms == terms {
      entries[Int(last)]!.users += 1
      return last
    }
    let id: ID
    if let found = known[terms] {
      id = found
      entries[Int(id)]!.users += 1
    } else {
      if let reused = free.popLast() {
        id = reused
      } else {
        id = ID(entries.count)
        entries.append(nil)
        common.append(Common(terms))
      }
      common[Int(id)] = Common(terms)
      entries[Int(id)] = Entry(terms: terms, users: 1)
      known[terms] = id
    }
    last = id
    return id
  }

  /// Gives the terms back for one countdown; the last one removes them. O(1).
  mutating func release(_ id: ID) {
    entries[Int(id)]!.users -= 1
    guard entries[Int(id)]!.users == 0 else { return }
    known[entries[Int(id)]!.terms] = nil
    entries[Int(id)] = nil
    free.append(id)
    if last == id { last = nil }
  }
}
