-- How long dead letters are kept. Version 6 is schema.sql, lanes.sql, policies.sql, waits.sql, groups.sql and this file.

-- Until when a letter is kept (NULL: the next beat says for how long).
ALTER TABLE dead_letters ADD COLUMN until INTEGER;
CREATE INDEX dead_letters_by_until ON dead_letters (until);
