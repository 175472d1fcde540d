-- One row a key. at, a, b and log are the algorithm's state; expires is when it
-- equals that of a key never seen. Instants are microseconds since 1970.
--
-- A change moves version on; a row that is made anew begins with the time, so
-- that no version comes back. There is no index besides the key's, and pages
-- have room left: then a change is written beside the old row, in the table alone.
CREATE TABLE stint_state (
    key     bytea  NOT NULL PRIMARY KEY,
    at      bigint NOT NULL,
    a       bigint NOT NULL,
    b       bigint NOT NULL,
    expires bigint NOT NULL,
    version bigint NOT NULL,
    log     bytea  NOT NULL
) WITH (fillfactor = 70);
