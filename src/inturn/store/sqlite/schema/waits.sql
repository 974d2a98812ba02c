-- What deadlock detection needs. Version 4 is schema.sql, lanes.sql, policies.sql and this file.

-- What turns, and owners of locks, wait for, as their process has `reported` it. An ident of '' is a wait for a lock.
CREATE TABLE awaits (
    node TEXT NOT NULL,
    token TEXT NOT NULL,
    name TEXT NOT NULL,
    ident TEXT NOT NULL,
    arrival INTEGER NOT NULL,
    reported INTEGER NOT NULL,
    PRIMARY KEY (node, token)
) WITHOUT ROWID;
CREATE INDEX awaits_by_reported ON awaits (reported);
