-- One row a key. at, a, b and log are the algorithm's state; expires is when it
-- equals that of a key never seen. Instants are microseconds since 1970.
CREATE TABLE stint_state (
    key     BLOB    NOT NULL PRIMARY KEY,
    at      INTEGER NOT NULL,
    a       INTEGER NOT NULL,
    b       INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    log     BLOB    NOT NULL -- the last, so that a long one is read only where it is needed
) STRICT, WITHOUT ROWID;
