-- What src/inturn/store/redis/lua/include documents as keys, as tables. Text is compared byte by byte (BINARY).
-- Times are milliseconds of the store's clock; a time of 0 means: none.

-- One row: the store's clock, which never goes back, and the last fence given out.
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    now_us INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    namespace TEXT NOT NULL
);

-- When each process was last seen. Its home is the machine (and pid namespace) in which its pid means something.
CREATE TABLE processes (
    process TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    home TEXT NOT NULL
) WITHOUT ROWID;

-- Every lock in use. Without grants there is no row. `due`: when it must be looked at again (NULL: never).
CREATE TABLE locks (
    name TEXT PRIMARY KEY,
    capacity INTEGER NOT NULL,
    used INTEGER NOT NULL,
    due INTEGER
) WITHOUT ROWID;
CREATE INDEX locks_by_due ON locks (due);

CREATE TABLE grants (
    name TEXT NOT NULL,
    token TEXT NOT NULL,
    owner TEXT NOT NULL,
    weight INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    lapses INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (name, token)
) WITHOUT ROWID;

-- The queue of each lock, in order of its key: rank (a higher priority has a lower one), then arrival.
CREATE TABLE places (
    name TEXT NOT NULL,
    rank INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    token TEXT NOT NULL,
    owner TEXT NOT NULL,
    weight INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    life INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (name, rank, arrival)
) WITHOUT ROWID;
CREATE UNIQUE INDEX places_by_token ON places (token, name);
CREATE INDEX places_by_owner ON places (owner);

-- What a process has to be told; kept until it says that it was. Numbers grow, so that it can ask for the new ones.
CREATE TABLE inbox (
    process TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    token TEXT NOT NULL,
    name TEXT NOT NULL,
    why TEXT NOT NULL,
    told INTEGER NOT NULL,
    PRIMARY KEY (process, number)
) WITHOUT ROWID;

-- Why a lease was taken away, for a minute.
CREATE TABLE lost (
    token TEXT PRIMARY KEY,
    why TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
