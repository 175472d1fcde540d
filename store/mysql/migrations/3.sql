-- What is to be delivered: a row for each event that was booked while its config
-- delivered, until it has been. due is the slot's instant; dead is when the last
-- attempt failed, or 0, and status and error say how. Until leased_until only the
-- holder of lease may deliver. Rows are changed by their primary keys and in the
-- order of those, so that nobody waits for each other.
CREATE TABLE IF NOT EXISTS stint_slot_delivery (
    config       INT            NOT NULL,
    event        VARBINARY(512) NOT NULL,
    requested    BIGINT         NOT NULL,
    due          BIGINT         NOT NULL,
    attempts     INT            NOT NULL,
    status       INT            NOT NULL,
    error        VARCHAR(256) CHARACTER SET utf8mb4 NOT NULL,
    lease        BIGINT         NOT NULL,
    leased_until BIGINT         NOT NULL,
    dead         BIGINT         NOT NULL,
    PRIMARY KEY (config, event),
    KEY due (dead, due),
    KEY dead (config, dead, event)
) ENGINE=InnoDB;
