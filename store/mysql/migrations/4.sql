-- Rules: one row a rule, either in the plain form, a path, and how many calls of
-- it each caller may make in a period; or in full, as one of the rules of a rules
-- file, in YAML or JSON. Both may be edited by SQL.
--
-- modified moves by itself and tells that a row has changed. Stint notes in
-- changed_at what it was when Stint wrote the row last: if the two differ,
-- somebody else has been there since.
CREATE TABLE IF NOT EXISTS stint_rule (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
    enabled    BOOLEAN      NOT NULL DEFAULT TRUE,
    path       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    calls      BIGINT       NULL,
    period_ms  BIGINT       NULL,
    rule       MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    modified   TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    changed_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    changed_at TIMESTAMP(6) NULL DEFAULT NULL,
    UNIQUE KEY name (name),
    UNIQUE KEY path (path),
    KEY modified (modified),
    CONSTRAINT stint_rule_calls_are_0_or_more CHECK (calls >= 0),
    CONSTRAINT stint_rule_period_is_1ms_to_365d CHECK (period_ms BETWEEN 1 AND 31536000000),
    CONSTRAINT stint_rule_has_path_calls_period_or_rule CHECK (
        rule IS NULL AND path IS NOT NULL AND calls IS NOT NULL AND period_ms IS NOT NULL OR
        rule IS NOT NULL AND path IS NULL AND calls IS NULL AND period_ms IS NULL)
) ENGINE=InnoDB;

-- What rules have been, for people and for a rollback. A change without
-- changed_by was found: somebody had made it by SQL.
CREATE TABLE IF NOT EXISTS stint_rule_change (
    n          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at         TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    changed_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    deleted    BOOLEAN      NOT NULL,
    id         BIGINT       NOT NULL,
    revision   BIGINT       NOT NULL,
    name       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
    enabled    BOOLEAN      NOT NULL,
    path       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    calls      BIGINT       NULL,
    period_ms  BIGINT       NULL,
    rule       MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    KEY id (id, n)
) ENGINE=InnoDB;
