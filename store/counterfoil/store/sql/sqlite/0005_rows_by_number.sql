-- Operations and events have long rows: they are kept by row number, and their keys in indexes of their own. In a
-- table without row numbers a row lies in the tree of its key, where every insertion moves its long neighbours.
-- The checks are written with OR: for IN with more than two values SQLite builds a table in memory each time a row
-- is written, which took longer than the writing. What may be stored stays the same.

CREATE TABLE operations_anew (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    id TEXT NOT NULL CHECK (length(id) = 23),
    position INTEGER NOT NULL CHECK (position >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    since_floor INTEGER NOT NULL,
    action TEXT NOT NULL CHECK (length(action) > 0),
    target_folded TEXT NOT NULL,
    args_digest TEXT,
    fingerprint TEXT NOT NULL,
    compensates TEXT,
    description TEXT NOT NULL,
    terms TEXT NOT NULL,
    links TEXT NOT NULL,
    began TEXT,
    clock TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    receipts INTEGER NOT NULL CHECK (receipts >= 0),
    findings INTEGER NOT NULL CHECK (findings >= 0),
    standing_receipts INTEGER NOT NULL CHECK (standing_receipts >= 0),
    dispute TEXT CHECK (dispute = 'receipt' OR dispute = 'effects' OR dispute = 'negative'),
    disputed_at INTEGER,
    decision TEXT CHECK (decision = 'timed_out' OR decision = 'cancelled' OR decision = 'compensated'),
    decided_at INTEGER,
    decided_by TEXT,
    decision_reason TEXT,
    lease_until INTEGER,
    deadline_at INTEGER,
    acknowledged_at INTEGER,
    settle_restart_at INTEGER,
    set_back INTEGER NOT NULL CHECK (set_back >= 0),
    progress_message TEXT,
    progress_fraction REAL,
    checkpoint TEXT,
    progressed_at INTEGER,
    asked_context TEXT,
    pruned_at INTEGER,
    PRIMARY KEY (namespace, run, key),
    UNIQUE (namespace, id),
    FOREIGN KEY (namespace, run) REFERENCES runs (namespace, run),
    CHECK (state = 'planned' OR state = 'in_progress' OR state = 'in_doubt' OR
        state = 'failed' OR state = 'succeeded' OR state = 'timed_out' OR
        state = 'cancelled' OR state = 'compensated' OR state = 'disputed'),
    CHECK ((state = 'disputed') = (dispute IS NOT NULL)),
    CHECK ((dispute IS NULL) = (disputed_at IS NULL)),
    CHECK (state = 'disputed' OR decision IS NULL OR state = decision),
    CHECK ((state <> 'timed_out' AND state <> 'cancelled' AND state <> 'compensated') OR decision IS NOT NULL),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL)),
    CHECK (standing_receipts <= receipts),
    CHECK (state <> 'succeeded' OR standing_receipts > 0),
    CHECK ((state <> 'planned' AND state <> 'in_progress' AND state <> 'in_doubt' AND state <> 'failed')
        OR standing_receipts = 0),
    CHECK (state <> 'planned' OR attempts = 0),
    CHECK ((state <> 'in_progress' AND state <> 'in_doubt' AND state <> 'failed') OR attempts > 0),
    CHECK (state <> 'in_progress' OR lease_until IS NOT NULL)
) STRICT;

INSERT INTO operations_anew (
    namespace, run, key, id, position, created_at, updated_at, since_floor, action, target_folded, args_digest,
    fingerprint, compensates, description, terms, links, began, clock, state, attempts, receipts, findings,
    standing_receipts, dispute, disputed_at, decision, decided_at, decided_by, decision_reason, lease_until,
    deadline_at, acknowledged_at, settle_restart_at, set_back, progress_message, progress_fraction, checkpoint,
    progressed_at, asked_context, pruned_at
)
SELECT
    namespace, run, key, id, position, created_at, updated_at, since_floor, action, target_folded, args_digest,
    fingerprint, compensates, description, terms, links, began, clock, state, attempts, receipts, findings,
    standing_receipts, dispute, disputed_at, decision, decided_at, decided_by, decision_reason, lease_until,
    deadline_at, acknowledged_at, settle_restart_at, set_back, progress_message, progress_fraction, checkpoint,
    progressed_at, asked_context, pruned_at
FROM operations ORDER BY namespace, run, position;

DROP TABLE operations;
ALTER TABLE operations_anew RENAME TO operations;

CREATE TABLE attempts_anew (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    principal TEXT,
    conversation TEXT,
    connection TEXT,
    call_id TEXT,
    reason TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT NOT NULL CHECK (outcome = 'open' OR outcome = 'unknown' OR outcome = 'refused' OR
        outcome = 'silent'),
    is_touched INTEGER NOT NULL CHECK (is_touched IN (0, 1)),
    retryable INTEGER NOT NULL CHECK (retryable IN (0, 1)),
    retry_at INTEGER,
    error TEXT,
    set_back INTEGER NOT NULL,
    context TEXT,
    workflow_version TEXT,
    grant_id TEXT,
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK ((number = 0) = (generation = 0)),
    CHECK ((number = 0) = (principal IS NULL)),
    CHECK (outcome <> 'open' OR ended_at IS NULL),
    CHECK (granted_at <= lease_until)
) STRICT, WITHOUT ROWID;

INSERT INTO attempts_anew (
    namespace, run, operation, number, generation, principal, conversation, connection, call_id, reason,
    granted_at, lease_until, ended_at, outcome, is_touched, retryable, retry_at, error, set_back, context,
    workflow_version, grant_id
)
SELECT
    namespace, run, operation, number, generation, principal, conversation, connection, call_id, reason,
    granted_at, lease_until, ended_at, outcome, is_touched, retryable, retry_at, error, set_back, context,
    workflow_version, grant_id
FROM attempts ORDER BY namespace, run, operation, number;

DROP TABLE attempts;
ALTER TABLE attempts_anew RENAME TO attempts;

CREATE TABLE receipts_anew (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    external_id TEXT,
    performed_at INTEGER,
    url TEXT,
    evidence_digest TEXT,
    final INTEGER NOT NULL CHECK (final IN (0, 1)),
    source TEXT NOT NULL,
    assurance INTEGER NOT NULL CHECK (assurance BETWEEN 0 AND 3),
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    recorded_at INTEGER NOT NULL,
    call_id TEXT,
    is_accepted INTEGER NOT NULL CHECK (is_accepted IN (0, 1)),
    is_foreign INTEGER NOT NULL CHECK (is_foreign IN (0, 1)),
    is_unannounced INTEGER NOT NULL CHECK (is_unannounced IN (0, 1)),
    is_undo INTEGER NOT NULL CHECK (is_undo IN (0, 1)),
    is_set_aside INTEGER NOT NULL CHECK (is_set_aside IN (0, 1)),
    satisfies TEXT,
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK (assurance = 0 OR external_id IS NOT NULL),
    CHECK (is_accepted = 0 OR (assurance > 0 AND final = 1 AND is_foreign = 0))
) STRICT, WITHOUT ROWID;

INSERT INTO receipts_anew (
    namespace, run, operation, number, kind, system, external_id, performed_at, url, evidence_digest, final,
    source, assurance, attempt, recorded_at, call_id, is_accepted, is_foreign, is_unannounced, is_undo,
    is_set_aside, satisfies
)
SELECT
    namespace, run, operation, number, kind, system, external_id, performed_at, url, evidence_digest, final,
    source, assurance, attempt, recorded_at, call_id, is_accepted, is_foreign, is_unannounced, is_undo,
    is_set_aside, satisfies
FROM receipts ORDER BY namespace, run, operation, number;

DROP TABLE receipts;
ALTER TABLE receipts_anew RENAME TO receipts;

CREATE TABLE events_anew (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    operation TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    data TEXT NOT NULL,
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (namespace, run, seq)
) STRICT;

INSERT INTO events_anew (
    namespace, run, seq, operation, kind, at, caller, data, hash
)
SELECT
    namespace, run, seq, operation, kind, at, caller, data, hash
FROM events ORDER BY namespace, run, seq;

DROP TABLE events;
ALTER TABLE events_anew RENAME TO events;

CREATE INDEX operations_by_target ON operations (namespace, run, action, target_folded, fingerprint, key);
CREATE INDEX operations_by_args ON operations (namespace, run, action, args_digest, target_folded, key);
CREATE INDEX operations_by_state ON operations (namespace, run, state, position, key);
CREATE INDEX operations_by_change ON operations (namespace, updated_at DESC, id);
CREATE UNIQUE INDEX attempts_by_call ON attempts (namespace, run, operation, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX events_by_operation ON events (namespace, run, operation, seq);
