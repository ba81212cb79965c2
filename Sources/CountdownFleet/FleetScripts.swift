import Countdowns
import Wire

/// Scripts that a server runs in one step. Times are microseconds since 1970 on the server's clock.
enum FleetScript: Int, CaseIterable {
  case change, read, open, entries

  /// The least number of entries that a stream keeps; older ones are removed now and then.
  static let streamLength = 10_000

  /// `TIME` as one number. It has 16 digits, but Lua's own text of a number has 14: use `%.0f`.
  private static let clock = """
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]

    """

  /// Returns until when a lease lasts. If a change has relied on its end, it has the time of that
  /// change, below 0, and never lasts longer.
  private static let endOfLease = """
    local function last(til, least) return til < 0 and -til or math.max(til, least) end

    """

  /// Renews the lease of a host, if it has one that is not over, and finds those that are over. If
  /// nobody has opened the partition for a while, nobody could: then leases last longer.
  private static let leases = """
    local over, next = {}, 0
    local l = redis.call('HGETALL', leases)
    if #l > 0 or host ~= '' then
      local t = {}
      for i = 1, #l, 2 do t[l[i]] = tonumber(l[i + 1]) end
      local quiet = t.quiet or 0
      if now - (t.at or 0) > \(FleetLeases.gap) then quiet = now end
      t.at, t.quiet = nil, nil
      local least = quiet + \(FleetLeases.length)
      if host ~= '' and not (t[host] and now > last(t[host], least)) then
        t[host] = now + \(FleetLeases.length)
        redis.call('HSET', leases, host, string.format('%.0f', t[host]))
      end
      local count = 0
      for other, ending in pairs(t) do
        ending = last(ending, least)
        if now > ending + \(FleetLeases.memory) then redis.call('HDEL', leases, other)
        else
          count = count + 1
          if now > ending then over[#over + 1] = tonumber(other)
          elseif other ~= host and (next == 0 or ending - now + 1 < next) then
            next = ending - now + 1
          end
        end
      end
      if count == 0 then redis.call('DEL', leases)
      else
        redis.call('HSET', leases, 'at', string.format('%.0f', now),
          'quiet', string.format('%.0f', quiet))
      end
    end
    """

  /// Gives the keeper's lease to a host that renews it, finds it over, or relieves a keeper that
  /// has more; and takes it back. Hosts that have all records anyway come first, but only where a
  /// keeper is needed. What cannot be stored for lack of memory does not matter.
  private static let keeper = """
    local keeps, own = 0, tonumber(asker_load)
    if asker ~= '' and not own then
      if keeper == asker then redis.pcall('HSET', epoch, 'keeper-until', 0) end
    elseif asker ~= '' and (keeper or own > 0) and (keeper == asker
      or now > tonumber(ending or 0) or relieves == '1' and own + 1 < tonumber(load))
    then
      keeps = 1
      if tonumber(asker_blocked) > tonumber(blocked or 0) then blocked = asker_blocked end
      redis.pcall('HSET', epoch, 'keeper', asker, 'keeper-load', asker_load, 'keeper-until',
        string.format('%.0f', now + \(FleetKeeping.length)), 'blocked', blocked or 0)
    end
    """

  /// Finds out whether changes can be made, before any of them is asked for: writes what takes
  /// memory, and checks the rights for the rest. Then `refused` has the error, or is empty.
  private static let heartbeat = """
    local refused = redis.pcall('HSET', epoch, 'beat', string.format('%.0f', now))
    refused = type(refused) == 'table' and refused.err or ''
    for _, c in ipairs({{'HGET', epoch, 'n'}, {'HDEL', epoch, 'n'},
      {'HINCRBY', epoch, 'n', 1}, {'XADD', stream, '*', 'k', 'v'}})
    do
      if refused == '' and not redis.acl_check_cmd(unpack(c)) then
        refused = 'NOPERM this user has no permissions to run ' .. c[1]
      end
    end

    """

  var source: String {
    switch self {
    // Refuses before it writes. Steps that can fail for lack of memory or permission come first, so
    // either everything is done or nothing that matters.
    case .change:
      Self.changeFields.lua + Self.clock + Self.endOfLease + """
        local e = redis.call('HMGET', epoch, 'id', 'until', 'scripts')
        if e[1] ~= known or now < tonumber(e[2] or 0)
          or (e[3] or '\(FleetOpening.scripts)') ~= '\(FleetOpening.scripts)'
        then return {'epoch', now} end
        local old = redis.call('HGET', records, entity)
        if string.sub(old or '', 1, 16) ~= expected then return {'differs', now, old or ''} end
        if now < tonumber(earliest) or now > tonumber(latest) then return {'clock', now} end
        if host ~= '' or gone ~= '' then
          local l = redis.call('HMGET', leases, 'quiet', host, gone)
          local quiet = tonumber(l[1] or 0) + \(FleetLeases.length)
          local function over(til) return now > last(tonumber(til or 0), quiet) end
          if host ~= '' and l[2] and over(l[2]) then return {'lease', now, 1} end
          if gone ~= '' then
            if not over(l[3]) then return {'lease', now, 0} end
            redis.call('HSET', leases, gone, string.format('%.0f', 1 - now))
          end
          if host ~= '' then
            redis.call('HSETNX', leases, 'at', string.format('%.0f', now))
            redis.call('HSET', leases, host,
              string.format('%.0f', now + \(FleetLeases.length)))
          end
        end
        local n = redis.call('HINCRBY', epoch, 'n', 1)
        redis.call('XADD', stream, 'MAXLEN', '~', length, string.format('%.0f-0', n),
          'k', entity, 'v', version, 'r', record, 'e', events,
          't', string.format('%.0f', now))
        if record == '' then redis.call('HDEL', records, entity)
        else redis.call('HSET', records, entity, version .. record) end
        return {'changed', now, n}
        """
    case .read:
      Self.readFields.lua + Self.clock + "return {now, redis.call('HGET', records, entity) or ''}"
    case .entries:
      Self.entriesFields.lua + Self.clock
        + "return {now, redis.call('XRANGE', stream, first, last, 'COUNT', count)}"
    case .open:
      Self.openFields.lua + Self.clock + Self.endOfLease + """
        local id, n, til, keeper, ending, load, blocked, made, accepted, scripts =
          unpack(redis.call('HMGET', epoch, 'id', 'n', 'until', 'keeper', 'keeper-until',
            'keeper-load', 'blocked', 'made', 'accepted', 'scripts'))
        if id and (scripts or '\(FleetOpening.scripts)') ~= '\(FleetOpening.scripts)' then
          return {now, scripts}
        end
        if not id and known == '' and beginning == '' then return {now} end
        til, made = tonumber(til or 0), tonumber(made or now)
        local isStored = id and scripts
        if not id then id, n, made, accepted = new, now, now, '' end
        if beginning == 'loss' then til, accepted, isStored = 0, '1', false
        elseif known ~= '' and known ~= id and accepted ~= '1' then
          til, isStored = math.max(til, made + refusal, tonumber(asker_blocked)), false
        end
        if not isStored then
          redis.call('HSET', epoch, 'id', id, 'n', string.format('%.0f', n),
            'until', string.format('%.0f', til), 'made', string.format('%.0f', made),
            'accepted', accepted or '', 'scripts', '\(FleetOpening.scripts)')
        end
        local function version(number)
          local entry = redis.call('XRANGE', stream, number .. '-0', number .. '-0')[1]
          for i = 1, entry and #entry[2] or 0, 2 do
            if entry[2][i] == 'v' then return entry[2][i + 1] end
          end
          return ''
        end
        local newest = string.format('%.0f', n)
        local v = position ~= '0' and version(position) or ''
        local w = position == newest and v or version(newest)
        local p = ''
        if sets_policies == '1' then redis.call('HSET', epoch, 'policies', policies)
        elseif policies ~= '' then p = redis.call('HGET', epoch, 'policies') or '' end
        \(Self.heartbeat)
        \(Self.keeper)
        \(Self.leases)
        return {now, id, tonumber(n), til, v, p, over, next, keeps, tonumber(blocked or 0), refused,
          w}
        """
    }
  }
}

// MARK: Fields

/// The keys and arguments of a script, by the names that they have there.
struct ScriptFields<Request>: Sendable {
  let keys: [(name: String, of: any KeyPath<FleetNames, [UInt8]> & Sendable)]
  let arguments: [(name: String, value: @Sendable (Request) -> [UInt8])]

  /// What a script begins with.
  var lua: String {
    """
    local \(keys.map(\.name).joined(separator: ", ")) = unpack(KEYS)
    local \(arguments.map(\.name).joined(separator: ", ")) = unpack(ARGV)

    """
  }

  func words(_ request: Request, _ names: FleetNames) -> [[UInt8]] {
    [Array(decimal: keys.count)] + keys.map { names[keyPath: $0.of] }
      + arguments.map { $0.value(request) }
  }
}

extension FleetScript {
  static let changeFields = ScriptFields<(key: FleetKey, change: FleetChange)>(
    keys: [
      ("records", \.records), ("stream", \.stream), ("epoch", \.epoch), ("leases", \.leases),
    ],
    arguments: [
      ("known", { $0.change.epoch }),
      ("expected", { $0.change.expected?.bytes ?? [] }),
      ("earliest", { Array(decimal: $0.change.earliest) }),
      ("latest", { Array(decimal: $0.change.latest) }),
      ("version", { $0.change.version.bytes }),
      ("record", { $0.change.record ?? [] }),
      ("events", { $0.change.events }),
      ("entity", { FleetNames.text($0.key) }),
      ("length", { _ in Array(decimal: streamLength) }),
      ("host", { number($0.change.lease) }),
      ("gone", { number($0.change.gone) }),
    ])

  static let readFields = ScriptFields<FleetKey>(
    keys: [("records", \.records)], arguments: [("entity", { FleetNames.text($0) })])

  static let entriesFields = ScriptFields<(after: Int64, through: Int64, count: Int)>(
    keys: [("stream", \.stream)],
    arguments: [
      ("first", { "(\($0.after)-0".utf8Array }), ("last", { "\($0.through)-0".utf8Array }),
      ("count", { Array(decimal: $0.count) }),
    ])

  static let openFields = ScriptFields<FleetOpening>(
    keys: [("epoch", \.epoch), ("stream", \.stream), ("leases", \.leases)],
    arguments: [
      ("known", { $0.known }),
      ("new", { $0.new }),
      ("refusal", { Array(decimal: $0.refusal) }),
      ("position", { Array(decimal: $0.position) }),
      ("policies", { $0.policies }),
      ("sets_policies", { Array(decimal: $0.setsPolicies ? 1 : 0) }),
      ("host", { number($0.lease) }),
      ("asker", { number($0.keeping?.host) }),
      ("asker_load", { number($0.keeping?.load) }),
      ("relieves", { Array(decimal: $0.keeping?.relieves == true ? 1 : 0) }),
      ("asker_blocked", { Array(decimal: $0.keeping?.blockedUntil ?? 0) }),
      ("beginning", { Array(($0.beginning?.rawValue ?? "").utf8) }),
    ])

  private static func number(_ value: (some FixedWidthInteger)?) -> [UInt8] {
    value.map { Array(decimal: $0) } ?? []
  }
}
