-- Slots: what is booked, and when. Instants are microseconds since 1970; names
-- and ids are bytes. Whoever books holds the lock of the config's row.
CREATE TABLE stint_slot_config (
    id           integer NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         bytea   NOT NULL UNIQUE,
    revision     bigint  NOT NULL,
    paused_until bigint  NOT NULL
);

-- spec, as JSON, is all of a version; the columns before it are for people.
CREATE TABLE stint_slot_version (
    config integer NOT NULL REFERENCES stint_slot_config (id),
    n      integer NOT NULL,
    begins bigint  NOT NULL,
    max    bigint  NOT NULL,
    width  bigint  NOT NULL,
    made   bigint  NOT NULL,
    spec   text    NOT NULL,
    PRIMARY KEY (config, n)
);

-- One row an event. That no slot has two events and no event two slots is what
-- the two keys say, whoever writes.
CREATE TABLE stint_slot (
    at        bigint  NOT NULL,
    requested bigint  NOT NULL,
    booked    bigint  NOT NULL,
    win       bigint  NOT NULL,
    config    integer NOT NULL,
    era       integer NOT NULL,
    phase     integer NOT NULL CHECK (phase >= 0),
    event     bytea   NOT NULL,
    PRIMARY KEY (config, era, win, phase),
    UNIQUE (config, event)
);
CREATE INDEX stint_slot_at ON stint_slot (config, at);

-- The events that were cancelled, with the slots that they had.
CREATE TABLE stint_slot_cancelled (
    at        bigint  NOT NULL,
    requested bigint  NOT NULL,
    booked    bigint  NOT NULL,
    win       bigint  NOT NULL,
    config    integer NOT NULL,
    era       integer NOT NULL,
    phase     integer NOT NULL,
    event     bytea   NOT NULL,
    cancelled bigint  NOT NULL,
    PRIMARY KEY (config, event)
);

-- What is taken, so that no slot need be read to find a free one: the phases of
-- each window, bit j%8 of byte j/8, and the runs of full windows from lo to before
-- hi. Both follow from stint_slot.
CREATE TABLE stint_slot_window (
    win    bigint  NOT NULL,
    config integer NOT NULL,
    era    integer NOT NULL,
    taken  bytea   NOT NULL,
    PRIMARY KEY (config, era, win)
) WITH (fillfactor = 80);
CREATE TABLE stint_slot_run (
    lo     bigint  NOT NULL,
    hi     bigint  NOT NULL,
    config integer NOT NULL,
    era    integer NOT NULL,
    PRIMARY KEY (config, era, lo),
    CHECK (lo < hi)
) WITH (fillfactor = 50);
