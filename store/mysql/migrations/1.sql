-- One row a key. at, a, b and log are the algorithm's state; expires is when it
-- equals that of a key never seen, or, negative, when it was deleted. Instants
-- are microseconds since 1970.
--
-- A change moves version on; a row that is made anew begins with the time, so
-- that no version comes back. There is no index besides the key's: a change
-- writes the row and nothing else.
CREATE TABLE IF NOT EXISTS stint_state (
    `key`   VARBINARY(512) NOT NULL PRIMARY KEY,
    at      BIGINT         NOT NULL,
    a       BIGINT         NOT NULL,
    b       BIGINT         NOT NULL,
    expires BIGINT         NOT NULL,
    version BIGINT         NOT NULL,
    log     MEDIUMBLOB     NOT NULL
) ENGINE=InnoDB;
