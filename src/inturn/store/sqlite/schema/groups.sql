-- Groups of ready lanes, and looking at delayed messages. Version 5 is schema.sql, lanes.sql, policies.sql, waits.sql and
-- this file.

-- The group of a message ('': none). `lanes.ready` is the handler, or the handler, NUL and the group.
ALTER TABLE messages ADD COLUMN "group" TEXT NOT NULL DEFAULT '';
ALTER TABLE dead_letters ADD COLUMN "group" TEXT NOT NULL DEFAULT '';

-- The place of a group among the ready lanes of its handler, whose `place` is a number of the same kind.
CREATE TABLE groups (
    handler TEXT NOT NULL,
    name TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (handler, name)
) WITHOUT ROWID;
CREATE INDEX groups_by_place ON groups (handler, place);

-- The delayed messages of one lane, for those who look at it.
CREATE INDEX delayed_of_lane ON messages (key, after) WHERE delayed = 1;
