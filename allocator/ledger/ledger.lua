-- The ledger in Redis: ARGV is an operation of interface.py and its arguments as JSON, the answer is JSON.
-- Everything below happens at once, or, where the server fails, not at all.
--
-- KEYS: meta     hash: id, filled, run (the server's run id), seq (the last change), floor (removals up to it are forgotten)
--       entries  hash: UID -> entry as JSON
--       held     hash: name -> {takes: {UID: 1}, joins: {UID: 1}, last, prior: changes, by: session} as JSON
--       changes  sorted set: UIDs of entries by their last change
--       removed  sorted set: UIDs without entry by their removal
--       pending  sorted set: UIDs of entries that are not committed, by the time (ms) when they were reserved
local meta, entries, held, changes, removed, pending = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local operation, arguments = ARGV[1], cjson.decode(ARGV[2])
local REMEMBERED, KEPT = tonumber(ARGV[3]), tonumber(ARGV[4])

-- A server that has started anew may have lost the last changes, or all: what it has is not to be relied upon.
-- Returns nil and why where that could not be noticed.
local function run_id()
    local info = redis.pcall('INFO', 'server')
    if type(info) == 'string' then
        return string.match(info, 'run_id:(%w+)')
    end
    -- fakeredis has no such command, whose error may be no string of Lua, and keeps nothing when it ends. Redis says
    -- this in other words.
    local words = tostring(info.err)
    return string.find(words, 'unknown command', 1, true) and '-' or nil, words
end

-- Part of a ledger is worse than none. Policies that throw away what may expire throw away ours, too.
local function may_evict()
    local info = redis.pcall('INFO', 'memory')
    return type(info) == 'string' and string.match(info, 'maxmemory:(%d+)') ~= '0'
        and string.match(info, 'maxmemory_policy:([%w-]+)') ~= 'noeviction'
end

local function milliseconds()
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function next_change()
    return redis.call('HINCRBY', meta, 'seq', 1)
end

local function load(uid)
    local text = redis.call('HGET', entries, uid)
    return text and cjson.decode(text) or nil
end

local function save(entry)
    redis.call('HSET', entries, entry.uid, cjson.encode(entry))
    redis.call('ZADD', changes, next_change(), entry.uid)
    redis.call('ZREM', removed, entry.uid)
    if entry.state == 'committed' then
        redis.call('ZREM', pending, entry.uid)
    end
end

local function holders(name)
    local text = redis.call('HGET', held, name)
    return text and cjson.decode(text) or { takes = {}, joins = {}, last = 0, prior = 0, by = '' }
end

local function change_holders(entry, change)
    for _, kind in ipairs({ 'takes', 'joins' }) do
        for _, name in ipairs(entry[kind]) do
            local record = holders(name)
            change(record, kind)
            if next(record.takes) == nil and next(record.joins) == nil then
                redis.call('HDEL', held, name)
            else
                redis.call('HSET', held, name, cjson.encode(record))
            end
        end
    end
end

local function let_go(entry)
    change_holders(entry, function(record, kind)
        record[kind][entry.uid] = nil
    end)
end

local function hold(entry)
    local change = tonumber(redis.call('HGET', meta, 'seq'))
    change_holders(entry, function(record, kind)
        record[kind][entry.uid] = 1
        if kind == 'joins' then
            if record.by ~= entry.session then
                record.prior, record.by = record.last, entry.session
            end
            record.last = change
        end
    end)
end

local function remove(entry)
    let_go(entry)
    redis.call('HDEL', entries, entry.uid)
    redis.call('ZREM', changes, entry.uid)
    redis.call('ZREM', pending, entry.uid)
    redis.call('ZADD', removed, next_change(), entry.uid)
    local excess = redis.call('ZCARD', removed) - REMEMBERED
    if excess > 0 then
        local last = redis.call('ZRANGE', removed, excess - 1, excess - 1, 'WITHSCORES')
        redis.call('HSET', meta, 'floor', last[2])
        redis.call('ZREMRANGEBYRANK', removed, 0, excess - 1)
    end
end

local function other(record, uid)
    for holder in pairs(record) do
        if holder ~= uid then
            return holder
        end
    end
    return nil
end

local function overrule(names, kinds, uid)
    for _, name in ipairs(names) do
        local record = holders(name)
        for _, kind in ipairs(kinds) do
            for holder in pairs(record[kind]) do
                local entry = holder ~= uid and load(holder) or nil
                if entry and entry.state == 'reserved' then
                    entry.state = 'expiring'
                    save(entry)
                end
            end
        end
    end
end

local function note_fact(fact)
    local entry = load(fact.uid)
    if fact.allocated then
        if entry and entry.version >= fact.version then
            return
        end
        if entry then
            let_go(entry)
        end
        local new = {
            namespace = fact.namespace, name = fact.name, uid = fact.uid, state = 'committed',
            token = entry and entry.token or 0, session = entry and entry.session or '', at = 0,
            version = fact.version, takes = fact.takes, joins = fact.joins, results = fact.results,
        }
        overrule(new.takes, { 'takes', 'joins' }, new.uid)
        overrule(new.joins, { 'takes' }, new.uid)
        save(new)
        hold(new)
    elseif entry then
        local outdated = entry.state == 'committed' and entry.version < fact.version
        local fenced = entry.state == 'expiring' and entry.token <= fact.token
        if fact.gone or outdated or fenced then
            remove(entry)
        end
    end
end

local function refusal(wish, seen, session, mine)
    local entry = load(wish.uid)
    if entry then
        local own = entry.state == 'reserved' and entry.session == session
        if not own or entry.results ~= wish.results then
            return { name = '', holder = wish.uid }
        end
    end
    for _, name in ipairs(wish.takes) do
        local record = holders(name)
        local holder = mine.takes[name] or mine.joins[name]
        holder = holder or other(record.takes, wish.uid) or other(record.joins, wish.uid)
        if holder then
            return { name = name, holder = holder }
        end
        mine.takes[name] = wish.uid
    end
    for _, name in ipairs(wish.joins) do
        local record = holders(name)
        local holder = mine.takes[name] or other(record.takes, wish.uid)
        local moved = record.by == session and record.prior or record.last
        if not holder and moved > seen then
            holder = other(record.joins, wish.uid)
        end
        if holder then
            return { name = name, holder = holder }
        end
        mine.joins[name] = wish.uid
    end
    return nil
end

local answer = {}

local function settle()
    for _, fact in ipairs(arguments.facts) do
        note_fact(fact)
    end
end

local function reserve()
    settle()
    local conflicts, mine = {}, { takes = {}, joins = {} }
    for _, wish in ipairs(arguments.wishes) do
        local conflict = refusal(wish, arguments.seen, arguments.session, mine)
        if conflict then
            conflicts[#conflicts + 1] = conflict
        end
    end
    answer.conflicts = conflicts
    if #conflicts > 0 then
        return
    end
    local token, now = next_change(), milliseconds()
    for _, wish in ipairs(arguments.wishes) do
        local before = load(wish.uid)
        if before then
            let_go(before)
        end
        local entry = {
            namespace = wish.namespace, name = wish.name, uid = wish.uid, state = 'reserved', token = token,
            session = arguments.session, at = now, version = wish.version, takes = wish.takes, joins = wish.joins,
            results = wish.results,
        }
        save(entry)
        hold(entry)
        redis.call('ZADD', pending, now, wish.uid)
    end
    answer.token = token
end

local function confirm()
    local now, unknown = milliseconds(), {}
    for uid, token in pairs(arguments.tokens) do
        local entry = load(uid)
        if entry and entry.state == 'reserved' and entry.token == token then
            redis.call('ZADD', pending, now, uid)
        else
            unknown[#unknown + 1] = uid
        end
    end
    answer.unknown = unknown
end

local function commit()
    local unknown = {}
    for uid, written in pairs(arguments.written) do
        local entry = load(uid)
        if not entry or entry.token ~= written.token then
            unknown[#unknown + 1] = uid
        elseif entry.state ~= 'committed' then
            entry.state, entry.version = 'committed', written.version
            save(entry)
        end
    end
    answer.unknown = unknown
end

local function release()
    for uid, token in pairs(arguments.tokens) do
        local entry = load(uid)
        if entry and entry.state ~= 'committed' and entry.token == token then
            remove(entry)
        end
    end
end

-- Nothing stays for good in a server that others use, too. A key that was empty meanwhile is a new one, so all get it
-- each time.
local function keep()
    for _, key in ipairs(KEYS) do
        redis.call('EXPIRE', key, KEPT)
    end
end

local function expire()
    local old, name = milliseconds() - arguments.age, string.match(arguments.session, '^[^#]*')
    local waiting = redis.call('ZRANGE', pending, 0, -1, 'WITHSCORES')
    for index = 1, #waiting, 2 do
        local entry = load(waiting[index])
        if entry.state == 'reserved' then
            local earlier = entry.session ~= arguments.session and string.match(entry.session, '^[^#]*') == name
            if earlier or tonumber(waiting[index + 1]) <= old then
                entry.state = 'expiring'
                save(entry)
            end
        end
    end
end

local function read()
end

local function fill()
    redis.call('HSET', meta, 'filled', 1)
end

local function add_delta()
    local floor = tonumber(redis.call('HGET', meta, 'floor') or 0)
    local since = arguments.since
    answer.whole = since < floor
    if answer.whole then
        since = 0
    end
    answer['until'] = tonumber(redis.call('HGET', meta, 'seq') or 0)
    answer.changed, answer.removed = {}, {}
    for index, uid in ipairs(redis.call('ZRANGEBYSCORE', changes, '(' .. since, '+inf')) do
        answer.changed[index] = load(uid)
    end
    if not answer.whole then
        answer.removed = redis.call('ZRANGEBYSCORE', removed, '(' .. since, '+inf')
    end
end

local run, problem = run_id()
if not run then
    return redis.error_reply('ERR INFO cannot be used, which tells whether the server is still the same: ' .. (problem or '-'))
end
local id = redis.call('HGET', meta, 'id')
if id and redis.call('HGET', meta, 'run') ~= run then
    id = false
end
if operation == 'open' then
    if may_evict() then
        return redis.error_reply('ERR the server throws keys away when its memory is full; set maxmemory-policy noeviction')
    end
    if not id then
        redis.call('DEL', meta, entries, held, changes, removed, pending)
        id = arguments.id
        redis.call('HSET', meta, 'id', id, 'run', run, 'seq', 0)
    end
    keep()
    return cjson.encode({ id = id, filled = redis.call('HGET', meta, 'filled') == '1' })
end
local filled = redis.call('HGET', meta, 'filled') == '1'
if id ~= arguments.ledger or not (filled or operation == 'settle' or operation == 'fill') then
    return cjson.encode({ lost = true })
end
local operations = {
    reserve = reserve, confirm = confirm, commit = commit, release = release, expire = expire, settle = settle,
    read = read, fill = fill,
}
operations[operation]()
keep()
add_delta()
return cjson.encode(answer)
