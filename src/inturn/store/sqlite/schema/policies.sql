-- What policies and watching need. Version 3 is schema.sql, lanes.sql and this file.

-- Whether others may interrupt the running turn; interrupts of inline turns in a row; the token that was interrupted
-- and has not ended yet, and until when it may take.
ALTER TABLE lanes ADD COLUMN allows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN cuts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN yields TEXT NOT NULL DEFAULT '';
ALTER TABLE lanes ADD COLUMN yield_by INTEGER NOT NULL DEFAULT 0;

-- The rule of its handler; the other idents of the burst that it leads ('' or JSON); whether more may join it; '' or
-- '@' and the version of its handler; interrupts in a row. While it is `delayed` it is in no mailbox, until `after`, and
-- `keep` is the ttl of the state. A message that neither waits nor is delayed runs, or is part of another one's burst.
ALTER TABLE messages ADD COLUMN rule TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN together TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN open INTEGER NOT NULL DEFAULT 1;
ALTER TABLE messages ADD COLUMN needs TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN cuts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN keep INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN delayed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX later ON messages (after) WHERE delayed = 1;

ALTER TABLE dead_letters ADD COLUMN rule TEXT NOT NULL DEFAULT '';
ALTER TABLE dead_letters ADD COLUMN needs TEXT NOT NULL DEFAULT '';

-- 0: nobody watches any lane. Otherwise a new number after every change of the table `watching`.
ALTER TABLE store ADD COLUMN watching INTEGER NOT NULL DEFAULT 0;

-- The processes that watch a lane. Each renews its rows, and is forgotten if it does not.
CREATE TABLE watching (
    key TEXT NOT NULL,
    process TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (key, process)
) WITHOUT ROWID;
CREATE INDEX watching_by_process ON watching (process);

-- What was said about the lanes that a process watches, until it has read it. A key of '' says that texts are missing.
CREATE TABLE heard (
    process TEXT NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    text BLOB NOT NULL,
    said INTEGER NOT NULL,
    PRIMARY KEY (process, number)
) WITHOUT ROWID;

-- Messages that have failed before are tried again as they are: no others may join them.
UPDATE messages SET open = 0 WHERE attempts > 0;
