-- What is to be delivered: a row for each event that was booked while its config
-- delivered, until it has been. due is the slot's instant; dead is when the last
-- attempt failed, or 0, and status and error say how. Until leased_until only the
-- holder of lease may deliver.
CREATE TABLE stint_slot_delivery (
    config       INTEGER NOT NULL,
    event        TEXT    NOT NULL,
    requested    INTEGER NOT NULL,
    due          INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    error        TEXT    NOT NULL,
    lease        INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    dead         INTEGER NOT NULL,
    PRIMARY KEY (config, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX stint_slot_delivery_due ON stint_slot_delivery (due) WHERE dead = 0;
CREATE INDEX stint_slot_delivery_dead ON stint_slot_delivery (config, dead) WHERE dead > 0;
