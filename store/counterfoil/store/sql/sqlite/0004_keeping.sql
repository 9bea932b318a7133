-- What a restored journal cannot know, which gaps a person has accepted, and what was pruned.

ALTER TABLE journal ADD COLUMN backed_up_at INTEGER;

CREATE TABLE restores (
    restored_at INTEGER NOT NULL PRIMARY KEY,
    backed_up_at INTEGER NOT NULL
) STRICT;

-- An empty run stands for every run of the namespace, also for those that nobody has begun yet.
CREATE TABLE accepted_gaps (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    restored_at INTEGER NOT NULL REFERENCES restores (restored_at),
    accepted_at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    PRIMARY KEY (namespace, restored_at, run)
) STRICT, WITHOUT ROWID;

-- Set where bodies of a settled operation were removed; no event, so that the log's length stays what it was.
ALTER TABLE operations ADD COLUMN pruned_at INTEGER;

-- What version 0.1.0 made and the first migration has since been made to make otherwise: the indexes of
-- look-alikes, and two tables whose key's columns SQLite 3.40 wants first (see there).
DROP INDEX IF EXISTS operations_by_effect;
CREATE INDEX IF NOT EXISTS operations_by_target
    ON operations (namespace, run, action, target_folded, fingerprint);
CREATE INDEX IF NOT EXISTS operations_by_args
    ON operations (namespace, run, action, args_digest, target_folded);

ALTER TABLE compensations RENAME TO compensations_before;
CREATE TABLE compensations (
    namespace TEXT NOT NULL,
    original TEXT NOT NULL,
    operation TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (namespace, original, operation)
) STRICT, WITHOUT ROWID;
INSERT INTO compensations (namespace, original, operation, run)
SELECT namespace, original, operation, run FROM compensations_before;
DROP TABLE compensations_before;

ALTER TABLE fingerprints RENAME TO fingerprints_before;
CREATE TABLE fingerprints (
    namespace TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    operation TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (namespace, fingerprint, operation)
) STRICT, WITHOUT ROWID;
INSERT INTO fingerprints (namespace, fingerprint, operation, run)
SELECT namespace, fingerprint, operation, run FROM fingerprints_before;
DROP TABLE fingerprints_before;
