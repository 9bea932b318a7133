-- The journal: runs, operations, attempts, receipts, findings, the event log, and the bodies.
-- Times are whole microseconds since the epoch, UTC. Everything is keyed by namespace and run; only the
-- last three tables are compared across runs.

CREATE TABLE journal (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    id TEXT NOT NULL CHECK (length(id) > 0),
    created_at INTEGER NOT NULL,
    secret TEXT NOT NULL CHECK (length(secret) >= 64)
) STRICT;

INSERT INTO journal (only, id, created_at, secret) VALUES (1, :journal_id, :created_at, :secret);

CREATE TABLE runs (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL CHECK (length(run) BETWEEN 1 AND 200),
    created_at INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    last_seq INTEGER NOT NULL CHECK (last_seq >= 0),
    head TEXT NOT NULL,
    operations INTEGER NOT NULL CHECK (operations >= 0),
    workflow TEXT,
    workflow_version TEXT,
    finished_as TEXT CHECK (finished_as IN ('completed', 'failed', 'cancelled')),
    PRIMARY KEY (namespace, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_touch ON runs (namespace, touched_at);

CREATE TABLE operations (
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
    dispute TEXT CHECK (dispute IN ('receipt', 'effects', 'negative')),
    disputed_at INTEGER,
    decision TEXT CHECK (decision IN ('timed_out', 'cancelled', 'compensated')),
    decided_at INTEGER,
    decided_by TEXT,
    decision_reason TEXT,
    lease_until INTEGER,
    deadline_at INTEGER,
    acknowledged_at INTEGER,
    settle_restart_at INTEGER,
    set_back INTEGER NOT NULL CHECK (set_back >= 0),
    PRIMARY KEY (namespace, run, key),
    UNIQUE (namespace, id),
    FOREIGN KEY (namespace, run) REFERENCES runs (namespace, run),
    CHECK (state IN ('planned', 'in_progress', 'in_doubt', 'failed', 'succeeded', 'timed_out', 'cancelled',
        'compensated', 'disputed')),
    CHECK ((state = 'disputed') = (dispute IS NOT NULL)),
    CHECK ((dispute IS NULL) = (disputed_at IS NULL)),
    CHECK (state = 'disputed' OR decision IS NULL OR state = decision),
    CHECK (state NOT IN ('timed_out', 'cancelled', 'compensated') OR decision IS NOT NULL),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL)),
    CHECK (standing_receipts <= receipts),
    CHECK (state <> 'succeeded' OR standing_receipts > 0),
    CHECK (state NOT IN ('planned', 'in_progress', 'in_doubt', 'failed') OR standing_receipts = 0),
    CHECK (state <> 'planned' OR attempts = 0),
    CHECK (state NOT IN ('in_progress', 'in_doubt', 'failed') OR attempts > 0),
    CHECK (state <> 'in_progress' OR lease_until IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX operations_by_target ON operations (namespace, run, action, target_folded, fingerprint);
CREATE INDEX operations_by_args ON operations (namespace, run, action, args_digest, target_folded);
CREATE INDEX operations_by_state ON operations (namespace, run, state);

CREATE TABLE attempts (
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
    outcome TEXT NOT NULL CHECK (outcome IN ('open', 'unknown', 'refused', 'silent')),
    is_touched INTEGER NOT NULL CHECK (is_touched IN (0, 1)),
    retryable INTEGER NOT NULL CHECK (retryable IN (0, 1)),
    retry_at INTEGER,
    error TEXT,
    set_back INTEGER NOT NULL,
    context TEXT,
    workflow_version TEXT,
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK ((number = 0) = (generation = 0)),
    CHECK ((number = 0) = (principal IS NULL)),
    CHECK (outcome <> 'open' OR ended_at IS NULL),
    CHECK (granted_at <= lease_until)
) STRICT, WITHOUT ROWID;

-- A call id is granted once per operation: the same call sent again gets the same grant.
CREATE UNIQUE INDEX attempts_by_call ON attempts (namespace, run, operation, call_id) WHERE call_id IS NOT NULL;

CREATE TABLE receipts (
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
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK (assurance = 0 OR external_id IS NOT NULL),
    CHECK (is_accepted = 0 OR (assurance > 0 AND final = 1 AND is_foreign = 0))
) STRICT, WITHOUT ROWID;

CREATE TABLE findings (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    finding TEXT NOT NULL CHECK (finding IN ('performed', 'not_performed', 'inconclusive', 'compensated')),
    checked_with TEXT NOT NULL,
    found_by TEXT NOT NULL,
    as_of INTEGER,
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    recorded_at INTEGER NOT NULL,
    evidence_digest TEXT,
    call_id TEXT,
    is_unsettling INTEGER NOT NULL CHECK (is_unsettling IN (0, 1)),
    is_persons INTEGER NOT NULL CHECK (is_persons IN (0, 1)),
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id)
) STRICT, WITHOUT ROWID;

-- The truth: every other table is a replay of this one. Chained per run: hash covers the one before it.
CREATE TABLE events (
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
) STRICT, WITHOUT ROWID;

CREATE INDEX events_by_operation ON events (namespace, run, operation, seq);

-- What is too long, or too private, for the log: events hold digests, so that removing a body breaks no chain.
CREATE TABLE bodies (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, run, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE contexts (
    namespace TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE external_ids (
    namespace TEXT NOT NULL,
    external_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    stands INTEGER NOT NULL CHECK (stands IN (0, 1)),
    PRIMARY KEY (namespace, external_id, kind, system, operation)
) STRICT, WITHOUT ROWID;

-- In the next two tables the columns of the primary key stand first: SQLite 3.40 reports a NULL that is not
-- there (PRAGMA integrity_check) where another column stands between them.
CREATE TABLE compensations (
    namespace TEXT NOT NULL,
    original TEXT NOT NULL,
    operation TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (namespace, original, operation)
) STRICT, WITHOUT ROWID;

CREATE TABLE fingerprints (
    namespace TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    operation TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (namespace, fingerprint, operation)
) STRICT, WITHOUT ROWID;
