-- Slots: what is booked, and when. Instants are microseconds since 1970.
CREATE TABLE stint_slot_config (
    id           INTEGER NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE,
    revision     INTEGER NOT NULL,
    paused_until INTEGER NOT NULL
) STRICT;

-- spec, as JSON, is all of a version; the columns before it are for people.
CREATE TABLE stint_slot_version (
    config INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    begins INTEGER NOT NULL,
    max    INTEGER NOT NULL,
    width  INTEGER NOT NULL, -- microseconds
    made   INTEGER NOT NULL,
    spec   TEXT    NOT NULL,
    PRIMARY KEY (config, n)
) STRICT, WITHOUT ROWID;

-- One row an event. That no slot has two events and no event two slots is what
-- the two keys say, whoever writes.
CREATE TABLE stint_slot (
    config    INTEGER NOT NULL,
    era       INTEGER NOT NULL,
    win       INTEGER NOT NULL,
    phase     INTEGER NOT NULL CHECK (phase >= 0),
    event     TEXT    NOT NULL,
    requested INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    booked    INTEGER NOT NULL,
    PRIMARY KEY (config, era, win, phase),
    UNIQUE (config, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX stint_slot_at ON stint_slot (config, at);

-- The events that were cancelled, with the slots that they had.
CREATE TABLE stint_slot_cancelled (
    config    INTEGER NOT NULL,
    era       INTEGER NOT NULL,
    win       INTEGER NOT NULL,
    phase     INTEGER NOT NULL,
    event     TEXT    NOT NULL,
    requested INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    booked    INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    PRIMARY KEY (config, event)
) STRICT, WITHOUT ROWID;

-- What is taken, so that no slot need be read to find a free one: the phases of
-- each window, bit j%8 of byte j/8, and the runs of full windows from lo to before
-- hi. Both follow from stint_slot.
CREATE TABLE stint_slot_window (
    config INTEGER NOT NULL,
    era    INTEGER NOT NULL,
    win    INTEGER NOT NULL,
    taken  BLOB    NOT NULL,
    PRIMARY KEY (config, era, win)
) STRICT, WITHOUT ROWID;
CREATE TABLE stint_slot_run (
    config INTEGER NOT NULL,
    era    INTEGER NOT NULL,
    lo     INTEGER NOT NULL,
    hi     INTEGER NOT NULL,
    PRIMARY KEY (config, era, lo),
    CHECK (lo < hi)
) STRICT, WITHOUT ROWID;
