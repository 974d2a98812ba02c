-- The tables of lanes. Version 2 is schema.sql and this file. As in lua/include/lane.lua, an idle lane has no row in
-- `lanes`, and its state, while it lives, has a row of its own.

-- The last lane that a beat swept.
ALTER TABLE store ADD COLUMN swept_lane TEXT NOT NULL DEFAULT '';

-- Lanes that are leased, stopped, or have messages that wait (`waiting` of them). `place` orders the ready list of the
-- handler `ready` (NULL: in no list). `alarm` is when the lane must be looked at again (NULL: no need).
CREATE TABLE lanes (
    key TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    granted INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    until INTEGER NOT NULL,
    lapse INTEGER NOT NULL,
    began INTEGER NOT NULL,
    running TEXT NOT NULL,
    stopped TEXT NOT NULL,
    why TEXT NOT NULL,
    ready TEXT NOT NULL,
    place INTEGER,
    keep INTEGER NOT NULL,
    awaited TEXT NOT NULL,
    waiting INTEGER NOT NULL,
    alarm INTEGER
) WITHOUT ROWID;
CREATE INDEX lanes_by_ready ON lanes (ready, place) WHERE place IS NOT NULL;
CREATE INDEX lanes_by_alarm ON lanes (alarm) WHERE alarm IS NOT NULL;

-- Messages that wait (`waits` = 1) or run. An ident is the handler, NUL and the id. Only inline turns have a caller.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    ident TEXT NOT NULL,
    rank INTEGER NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    time_limit INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    after INTEGER NOT NULL,
    late INTEGER NOT NULL,
    caller TEXT,
    errors TEXT NOT NULL,
    watchers TEXT NOT NULL,
    waits INTEGER NOT NULL
);
CREATE UNIQUE INDEX messages_by_ident ON messages (key, ident);
CREATE INDEX messages_by_late ON messages (late) WHERE late > 0;
CREATE INDEX messages_by_caller ON messages (caller) WHERE caller IS NOT NULL;
-- The mailbox of each lane, in its order: rank, then number.
CREATE INDEX mail ON messages (key, rank) WHERE waits = 1;

-- The states of lanes. A state does not expire while messages wait (`until` is NULL).
CREATE TABLE states (
    key TEXT PRIMARY KEY,
    state BLOB NOT NULL,
    until INTEGER
) WITHOUT ROWID;
CREATE INDEX states_by_until ON states (until) WHERE until IS NOT NULL;

-- The results of messages that were committed.
CREATE TABLE marks (
    key TEXT NOT NULL,
    ident TEXT NOT NULL,
    result BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (key, ident)
) WITHOUT ROWID;
CREATE INDEX marks_by_until ON marks (until);

-- Messages that failed for good, the oldest first, each with the time to live of its lane's state.
CREATE TABLE dead_letters (
    dead INTEGER PRIMARY KEY,
    died INTEGER NOT NULL,
    keep INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    ident TEXT NOT NULL,
    rank INTEGER NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    time_limit INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    errors TEXT NOT NULL
);
CREATE UNIQUE INDEX dead_letters_by_ident ON dead_letters (key, ident);

-- Every handler that ever had a lane in its ready list.
CREATE TABLE handlers (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- The handlers that each process runs, every name between two NULs; and the processes that found no work for a handler.
CREATE TABLE workers (process TEXT PRIMARY KEY, can TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE idle (
    handler TEXT NOT NULL,
    since INTEGER NOT NULL,
    process TEXT NOT NULL,
    PRIMARY KEY (handler, since)
) WITHOUT ROWID;
CREATE INDEX idle_by_process ON idle (process);

-- What each claim was given: lanes and tokens, as JSON. Kept for a minute.
CREATE TABLE claims (
    call TEXT PRIMARY KEY,
    turns TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX claims_by_until ON claims (until);

-- Many results can be in an inbox at once, and each is taken out by its name.
CREATE INDEX inbox_by_name ON inbox (process, kind, name);
