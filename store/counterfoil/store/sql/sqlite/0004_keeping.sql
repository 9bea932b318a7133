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
