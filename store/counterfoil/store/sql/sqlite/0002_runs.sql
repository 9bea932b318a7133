-- What a run is for, who works on it, how it ended; how far operations and runs have come.

ALTER TABLE runs ADD COLUMN begun_at INTEGER;
ALTER TABLE runs ADD COLUMN goal TEXT;
ALTER TABLE runs ADD COLUMN spec_uri TEXT;
ALTER TABLE runs ADD COLUMN spec_digest TEXT;
ALTER TABLE runs ADD COLUMN parent TEXT;
ALTER TABLE runs ADD COLUMN schedule_name TEXT;
ALTER TABLE runs ADD COLUMN schedule_occurrence TEXT;
ALTER TABLE runs ADD COLUMN context TEXT;
ALTER TABLE runs ADD COLUMN offered TEXT;
ALTER TABLE runs ADD COLUMN holder TEXT;
ALTER TABLE runs ADD COLUMN holder_name TEXT;
ALTER TABLE runs ADD COLUMN held_until INTEGER;
ALTER TABLE runs ADD COLUMN finished_at INTEGER;
ALTER TABLE runs ADD COLUMN finish_reason TEXT;
ALTER TABLE runs ADD COLUMN progress_message TEXT;
ALTER TABLE runs ADD COLUMN progress_fraction REAL;
ALTER TABLE runs ADD COLUMN checkpoint TEXT;

ALTER TABLE operations ADD COLUMN progress_message TEXT;
ALTER TABLE operations ADD COLUMN progress_fraction REAL;
ALTER TABLE operations ADD COLUMN checkpoint TEXT;
ALTER TABLE operations ADD COLUMN progressed_at INTEGER;

CREATE INDEX runs_by_workflow ON runs (namespace, workflow);
CREATE INDEX runs_by_parent ON runs (namespace, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_schedule ON runs (namespace, schedule_name, schedule_occurrence)
    WHERE schedule_name IS NOT NULL;
CREATE INDEX operations_by_change ON operations (namespace, updated_at DESC, id);

-- What the work is held against: the criteria lie in a body; a receipt names the ones that it satisfies, with
-- the digest that each criterion's text had then.
ALTER TABLE runs ADD COLUMN criteria TEXT;
ALTER TABLE receipts ADD COLUMN satisfies TEXT;
