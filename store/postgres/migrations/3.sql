-- What is to be delivered: a row for each event that was booked while its config
-- delivered, until it has been. due is the slot's instant; dead is when the last
-- attempt failed, or 0, and status and error say how. Until leased_until only the
-- holder of lease may deliver. Whoever changes several rows at once locks them in
-- the order of config and event.
CREATE TABLE stint_slot_delivery (
    due          bigint  NOT NULL,
    requested    bigint  NOT NULL,
    lease        bigint  NOT NULL,
    leased_until bigint  NOT NULL,
    dead         bigint  NOT NULL,
    config       integer NOT NULL,
    attempts     integer NOT NULL,
    status       integer NOT NULL,
    event        bytea   NOT NULL,
    error        text    NOT NULL,
    PRIMARY KEY (config, event)
) WITH (fillfactor = 80);
CREATE INDEX stint_slot_delivery_due ON stint_slot_delivery (due) WHERE dead = 0;
CREATE INDEX stint_slot_delivery_dead ON stint_slot_delivery (config, dead, event) WHERE dead > 0;
