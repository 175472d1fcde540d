-- Rules: one row a rule, either in the plain form, a path, and how many calls of
-- it each caller may make in a period; or in full, as one of the rules of a rules
-- file, in YAML or JSON. Both may be edited by SQL.
--
-- modified, in microseconds since 1970, and revision move by themselves. Stint
-- notes in changed_rev the revision that it wrote: if the two differ, somebody
-- else has been there since.
CREATE TABLE stint_rule (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT UNIQUE,
    enabled     INTEGER NOT NULL DEFAULT TRUE,
    path        TEXT UNIQUE,
    calls       INTEGER,
    period_ms   INTEGER,
    rule        TEXT,
    modified    INTEGER NOT NULL DEFAULT 0,
    revision    INTEGER NOT NULL DEFAULT 0,
    changed_by  TEXT,
    changed_rev INTEGER,
    CONSTRAINT calls_are_0_or_more CHECK (calls >= 0),
    CONSTRAINT period_is_1ms_to_365d CHECK (period_ms BETWEEN 1 AND 31536000000),
    CONSTRAINT has_path_calls_period_or_rule CHECK (
        rule IS NULL AND path IS NOT NULL AND calls IS NOT NULL AND period_ms IS NOT NULL OR
        rule IS NOT NULL AND path IS NULL AND calls IS NULL AND period_ms IS NULL)
) STRICT;

-- What rules have been, for people and for a rollback. A change without
-- changed_by was found: somebody had made it by SQL.
CREATE TABLE stint_rule_change (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    changed_by TEXT,
    deleted    INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    name       TEXT,
    enabled    INTEGER NOT NULL,
    path       TEXT,
    calls      INTEGER,
    period_ms  INTEGER,
    rule       TEXT
) STRICT;
CREATE INDEX stint_rule_change_id ON stint_rule_change (id, n);

-- One row, which every change counts up.
CREATE TABLE stint_rule_version (n INTEGER NOT NULL) STRICT;
INSERT INTO stint_rule_version VALUES (1);

CREATE TRIGGER stint_rule_inserted AFTER INSERT ON stint_rule BEGIN
    UPDATE stint_rule_version SET n = n + 1;
    UPDATE stint_rule SET revision = (SELECT n FROM stint_rule_version),
        modified = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) WHERE id = NEW.id;
END;
CREATE TRIGGER stint_rule_updated AFTER UPDATE OF id, name, enabled, path, calls, period_ms, rule ON stint_rule BEGIN
    UPDATE stint_rule_version SET n = n + 1;
    UPDATE stint_rule SET revision = (SELECT n FROM stint_rule_version),
        modified = max(OLD.modified + 1, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)) WHERE id = NEW.id;
END;
CREATE TRIGGER stint_rule_deleted AFTER DELETE ON stint_rule BEGIN
    UPDATE stint_rule_version SET n = n + 1;
END;
