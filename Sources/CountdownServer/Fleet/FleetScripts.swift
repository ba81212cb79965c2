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
    local l = redis.call('HGETALL', KEYS[3])
    if #l > 0 or ARGV[7] ~= '' then
      local t = {}
      for i = 1, #l, 2 do t[l[i]] = tonumber(l[i + 1]) end
      local quiet = t.quiet or 0
      if now - (t.at or 0) > \(FleetLeases.gap) then quiet = now end
      t.at, t.quiet = nil, nil
      local least = quiet + \(FleetLeases.length)
      if ARGV[7] ~= '' and not (t[ARGV[7]] and now > last(t[ARGV[7]], least)) then
        t[ARGV[7]] = now + \(FleetLeases.length)
        redis.call('HSET', KEYS[3], ARGV[7], string.format('%.0f', t[ARGV[7]]))
      end
      local count = 0
      for host, ending in pairs(t) do
        ending = last(ending, least)
        if now > ending + \(FleetLeases.memory) then redis.call('HDEL', KEYS[3], host)
        else
          count = count + 1
          if now > ending then over[#over + 1] = tonumber(host)
          elseif host ~= ARGV[7] and (next == 0 or ending - now + 1 < next) then
            next = ending - now + 1
          end
        end
      end
      if count == 0 then redis.call('DEL', KEYS[3])
      else
        redis.call('HSET', KEYS[3], 'at', string.format('%.0f', now),
          'quiet', string.format('%.0f', quiet))
      end
    end
    """

  /// Gives the keeper's lease to a host that renews it, finds it over, or relieves a keeper that
  /// has more; and takes it back. Hosts that have all records anyway come first, but only where a
  /// keeper is needed. What cannot be stored for lack of memory does not matter.
  private static let keeper = """
    local keeps, own = 0, tonumber(ARGV[9])
    if ARGV[8] ~= '' and not own then
      if keeper == ARGV[8] then redis.pcall('HSET', KEYS[1], 'keeper-until', 0) end
    elseif ARGV[8] ~= '' and (keeper or own > 0) and (keeper == ARGV[8]
      or now > tonumber(ending or 0) or ARGV[10] == '1' and own + 1 < tonumber(load))
    then
      keeps = 1
      if tonumber(ARGV[11]) > tonumber(blocked or 0) then blocked = ARGV[11] end
      redis.pcall('HSET', KEYS[1], 'keeper', ARGV[8], 'keeper-load', ARGV[9], 'keeper-until',
        string.format('%.0f', now + \(FleetKeeping.length)), 'blocked', blocked or 0)
    end
    """

  /// Finds out whether changes can be made, before any of them is asked for: writes what takes
  /// memory, and checks the rights for the rest. Then `refused` has the error, or is empty.
  private static let heartbeat = """
    local refused = redis.pcall('HSET', KEYS[1], 'beat', string.format('%.0f', now))
    refused = type(refused) == 'table' and refused.err or ''
    for _, c in ipairs({{'HGET', KEYS[1], 'n'}, {'HDEL', KEYS[1], 'n'},
      {'HINCRBY', KEYS[1], 'n', 1}, {'XADD', KEYS[2], '*', 'k', 'v'}})
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
      Self.clock + Self.endOfLease + """
        local e = redis.call('HMGET', KEYS[3], 'id', 'until', 'scripts')
        if e[1] ~= ARGV[1] or now < tonumber(e[2] or 0)
          or (e[3] or '\(FleetOpening.scripts)') ~= '\(FleetOpening.scripts)'
        then return {'epoch', now} end
        local old = redis.call('HGET', KEYS[1], ARGV[8])
        if string.sub(old or '', 1, 16) ~= ARGV[2] then return {'differs', now, old or ''} end
        if now < tonumber(ARGV[3]) or now > tonumber(ARGV[4]) then return {'clock', now} end
        if ARGV[10] ~= '' or ARGV[11] ~= '' then
          local l = redis.call('HMGET', KEYS[4], 'quiet', ARGV[10], ARGV[11])
          local quiet = tonumber(l[1] or 0) + \(FleetLeases.length)
          local function over(til) return now > last(tonumber(til or 0), quiet) end
          if ARGV[10] ~= '' and l[2] and over(l[2]) then return {'lease', now, 1} end
          if ARGV[11] ~= '' then
            if not over(l[3]) then return {'lease', now, 0} end
            redis.call('HSET', KEYS[4], ARGV[11], string.format('%.0f', 1 - now))
          end
          if ARGV[10] ~= '' then
            redis.call('HSETNX', KEYS[4], 'at', string.format('%.0f', now))
            redis.call('HSET', KEYS[4], ARGV[10],
              string.format('%.0f', now + \(FleetLeases.length)))
          end
        end
        local n = redis.call('HINCRBY', KEYS[3], 'n', 1)
        redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[9], string.format('%.0f-0', n),
          'k', ARGV[8], 'v', ARGV[5], 'r', ARGV[6], 'e', ARGV[7],
          't', string.format('%.0f', now))
        if ARGV[6] == '' then redis.call('HDEL', KEYS[1], ARGV[8])
        else redis.call('HSET', KEYS[1], ARGV[8], ARGV[5] .. ARGV[6]) end
        return {'changed', now, n}
        """
    case .read:
      Self.clock + "return {now, redis.call('HGET', KEYS[1], ARGV[1]) or ''}"
    case .entries:
      Self.clock
        + "return {now, redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])}"
    case .open:
      Self.clock + Self.endOfLease + """
        local id, n, til, keeper, ending, load, blocked, made, accepted, scripts =
          unpack(redis.call('HMGET', KEYS[1], 'id', 'n', 'until', 'keeper', 'keeper-until',
            'keeper-load', 'blocked', 'made', 'accepted', 'scripts'))
        if id and (scripts or '\(FleetOpening.scripts)') ~= '\(FleetOpening.scripts)' then
          return {now, scripts}
        end
        if not id and ARGV[1] == '' and ARGV[12] == '' then return {now} end
        til, made = tonumber(til or 0), tonumber(made or now)
        local isStored = id and scripts
        if not id then id, n, made, accepted = ARGV[2], now, now, '' end
        if ARGV[12] == 'loss' then til, accepted, isStored = 0, '1', false
        elseif ARGV[1] ~= '' and ARGV[1] ~= id and accepted ~= '1' then
          til, isStored = math.max(til, made + ARGV[3], tonumber(ARGV[11])), false
        end
        if not isStored then
          redis.call('HSET', KEYS[1], 'id', id, 'n', string.format('%.0f', n),
            'until', string.format('%.0f', til), 'made', string.format('%.0f', made),
            'accepted', accepted or '', 'scripts', '\(FleetOpening.scripts)')
        end
        local function version(number)
          local entry = redis.call('XRANGE', KEYS[2], number .. '-0', number .. '-0')[1]
          for i = 1, entry and #entry[2] or 0, 2 do
            if entry[2][i] == 'v' then return entry[2][i + 1] end
          end
          return ''
        end
        local newest = string.format('%.0f', n)
        local v = ARGV[4] ~= '0' and version(ARGV[4]) or ''
        local w = ARGV[4] == newest and v or version(newest)
        local p = ''
        if ARGV[6] == '1' then redis.call('HSET', KEYS[1], 'policies', ARGV[5])
        elseif ARGV[5] ~= '' then p = redis.call('HGET', KEYS[1], 'policies') or '' end
        \(Self.heartbeat)
        \(Self.keeper)
        \(Self.leases)
        return {now, id, tonumber(n), til, v, p, over, next, keeps, tonumber(blocked or 0), refused,
          w}
        """
    }
  }
}
