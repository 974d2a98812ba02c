-- The keys that the Lua includes document, as tables: those of locks, and those that locks and lanes share.
-- Text is compared byte by byte (BINARY). Times are milliseconds of the store's clock; a time of 0 means none.

-- One row: the clock, which never goes back; the last fence that was given out; the first one that could be (`era`),
-- and the last lock that a beat swept.
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    namespace TEXT NOT NULL,
    now_us INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    era INTEGER NOT NULL,
    swept TEXT NOT NULL
);

-- When each process was last seen. Its home is the boot of the machine and the pid namespace in which its pid means
-- something.
CREATE TABLE processes (
    process TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    home TEXT NOT NULL
) WITHOUT ROWID;

-- Who holds what. A lock is in use while it has grants. Each of them carries its capacity, and the sum of their weights
-- is what is used. `due` is when the lock must be looked at again (NULL: nobody waits for it).
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

-- The queue of each lock, in the order of its primary key: rank (a higher priority has a lower rank), then arrival.
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

-- Notices for a process, kept until it says that it has them. Numbers grow, so that it can ask for the new ones.
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

-- Why a lease was taken away. Kept for a minute.
CREATE TABLE lost (
    token TEXT PRIMARY KEY,
    why TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
