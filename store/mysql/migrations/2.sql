-- Slots: what is booked, and when. Instants are microseconds since 1970; names
-- and ids are bytes. Whoever books holds the lock of the config's row.
CREATE TABLE IF NOT EXISTS stint_slot_config (
    id           INT            NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name         VARBINARY(128) NOT NULL,
    revision     BIGINT         NOT NULL,
    paused_until BIGINT         NOT NULL,
    UNIQUE KEY name (name)
) ENGINE=InnoDB;

-- spec, as JSON, is all of a version; the columns before it are for people.
CREATE TABLE IF NOT EXISTS stint_slot_version (
    config INT        NOT NULL,
    n      INT        NOT NULL,
    begins BIGINT     NOT NULL,
    max    BIGINT     NOT NULL,
    width  BIGINT     NOT NULL,
    made   BIGINT     NOT NULL,
    spec   MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (config, n)
) ENGINE=InnoDB;

-- One row an event. That no slot has two events and no event two slots is what
-- the two unique keys say, whoever writes; and that there is no phase before 0
-- its type, also where the server looks at no CHECK. The last key has the events
-- of a config in the order in which they are listed.
CREATE TABLE IF NOT EXISTS stint_slot (
    config    INT            NOT NULL,
    era       INT            NOT NULL,
    win       BIGINT         NOT NULL,
    phase     INT UNSIGNED   NOT NULL,
    at        BIGINT         NOT NULL,
    event     VARBINARY(512) NOT NULL,
    requested BIGINT         NOT NULL,
    booked    BIGINT         NOT NULL,
    PRIMARY KEY (config, era, win, phase),
    UNIQUE KEY event (config, event),
    KEY at (config, at, event)
) ENGINE=InnoDB;

-- The events that were cancelled, with the slots that they had.
CREATE TABLE IF NOT EXISTS stint_slot_cancelled (
    config    INT            NOT NULL,
    event     VARBINARY(512) NOT NULL,
    era       INT            NOT NULL,
    win       BIGINT         NOT NULL,
    phase     INT UNSIGNED   NOT NULL,
    at        BIGINT         NOT NULL,
    requested BIGINT         NOT NULL,
    booked    BIGINT         NOT NULL,
    cancelled BIGINT         NOT NULL,
    PRIMARY KEY (config, event)
) ENGINE=InnoDB;

-- What is taken, so that no slot need be read to find a free one: the phases of
-- each window, bit j%8 of byte j/8, and the runs of full windows from lo to before
-- hi. Both follow from stint_slot.
CREATE TABLE IF NOT EXISTS stint_slot_window (
    config INT        NOT NULL,
    era    INT        NOT NULL,
    win    BIGINT     NOT NULL,
    taken  MEDIUMBLOB NOT NULL,
    PRIMARY KEY (config, era, win)
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS stint_slot_run (
    config INT    NOT NULL,
    era    INT    NOT NULL,
    lo     BIGINT NOT NULL,
    hi     BIGINT NOT NULL,
    PRIMARY KEY (config, era, lo)
) ENGINE=InnoDB;
