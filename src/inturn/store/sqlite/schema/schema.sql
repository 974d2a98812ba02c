-- What src/inturn/store/redis/lua/include documents as keys, as tables: what locks have, and what lanes share.
-- Text is compared byte by byte (BINARY). Times are milliseconds of the store's clock; a time of 0 means: none.

-- One row: the clock, which never goes back, the last fence given out, the first one that could be, and the last name
-- that a beat looked at.
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    namespace TEXT NOT NULL,
    now_us INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    era INTEGER NOT NULL,
    swept TEXT NOT NULL
);

-- When each process was last seen. Its home is the machine (and pid namespace) in which its pid means something.
CREATE TABLE processes (
    process TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    home TEXT NOT NULL
) WITHOUT ROWID;

-- Who holds what. A lock is in use while it has grants; all carry its capacity, and the sum of their weights is used.
-- `due`: when the lock must be looked at again (NULL: nobody waits for it).
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
    capacity INTEGER NOT NULL,
    due INTEGER,
    PRIMARY KEY (name, token)
) WITHOUT ROWID;
CREATE INDEX grants_by_due ON grants (due) WHERE due IS NOT NULL;

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
    fence INTEGER NOT NULL,
    told INTEGER NOT NULL,
    PRIMARY KEY (process, number)
) WITHOUT ROWID;

-- Why a lease was taken away, for a minute.
CREATE TABLE lost (
    token TEXT PRIMARY KEY,
    why TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
