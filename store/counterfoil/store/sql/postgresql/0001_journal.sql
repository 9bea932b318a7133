-- The journal as SQLite's newest schema has it: the same tables, columns, keys and checks.
-- Times are whole microseconds since the epoch, UTC. Text is compared byte by byte, as SQLite does (COLLATE "C").
--
-- An entry of a B-tree holds at most a third of a page here (2704 bytes), and a text from outside may have 4,000
-- characters. So a long text stands in a key as its digest, and is found through a hash index, which has no such
-- limit. A hash index has one column; the rest of the condition is looked at in the row.

CREATE TABLE schema_version (
    "only" BIGINT NOT NULL PRIMARY KEY CHECK ("only" = 1),
    version BIGINT NOT NULL
);

INSERT INTO schema_version ("only", version) VALUES (1, 0);

-- Declared immutable, which convert_to is not in general: to UTF8 it is.
CREATE FUNCTION digest_of(said TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT encode(sha256(convert_to(said, 'UTF8')), 'hex') $$;

CREATE TABLE journal (
    "only" BIGINT NOT NULL PRIMARY KEY CHECK ("only" = 1),
    id TEXT COLLATE "C" NOT NULL CHECK (length(id) > 0),
    created_at BIGINT NOT NULL,
    secret TEXT COLLATE "C" NOT NULL CHECK (length(secret) >= 64),
    backed_up_at BIGINT
);

INSERT INTO journal ("only", id, created_at, secret) VALUES (1, :journal_id, :created_at, :secret);

CREATE TABLE runs (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL CHECK (length(run) BETWEEN 1 AND 200),
    created_at BIGINT NOT NULL,
    touched_at BIGINT NOT NULL,
    last_seq BIGINT NOT NULL CHECK (last_seq >= 0),
    head TEXT COLLATE "C" NOT NULL,
    operations BIGINT NOT NULL CHECK (operations >= 0),
    workflow TEXT COLLATE "C",
    workflow_version TEXT COLLATE "C",
    finished_as TEXT COLLATE "C" CHECK (finished_as IN ('completed', 'failed', 'cancelled')),
    begun_at BIGINT,
    goal TEXT COLLATE "C",
    spec_uri TEXT COLLATE "C",
    spec_digest TEXT COLLATE "C",
    parent TEXT COLLATE "C",
    schedule_name TEXT COLLATE "C",
    schedule_occurrence TEXT COLLATE "C",
    context TEXT COLLATE "C",
    offered TEXT COLLATE "C",
    holder TEXT COLLATE "C",
    holder_name TEXT COLLATE "C",
    held_until BIGINT,
    finished_at BIGINT,
    finish_reason TEXT COLLATE "C",
    progress_message TEXT COLLATE "C",
    progress_fraction DOUBLE PRECISION,
    checkpoint TEXT COLLATE "C",
    criteria TEXT COLLATE "C",
    PRIMARY KEY (namespace, run)
);

CREATE TABLE operations (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    id TEXT COLLATE "C" NOT NULL CHECK (length(id) = 23),
    position BIGINT NOT NULL CHECK (position >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    since_floor BIGINT NOT NULL,
    action TEXT COLLATE "C" NOT NULL CHECK (length(action) > 0),
    target_folded TEXT COLLATE "C" NOT NULL,
    args_digest TEXT COLLATE "C",
    fingerprint TEXT COLLATE "C" NOT NULL,
    compensates TEXT COLLATE "C",
    description TEXT COLLATE "C" NOT NULL,
    terms TEXT COLLATE "C" NOT NULL,
    links TEXT COLLATE "C" NOT NULL,
    began TEXT COLLATE "C",
    clock TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    receipts BIGINT NOT NULL CHECK (receipts >= 0),
    findings BIGINT NOT NULL CHECK (findings >= 0),
    standing_receipts BIGINT NOT NULL CHECK (standing_receipts >= 0),
    dispute TEXT COLLATE "C" CHECK (dispute IN ('receipt', 'effects', 'negative')),
    disputed_at BIGINT,
    decision TEXT COLLATE "C" CHECK (decision IN ('timed_out', 'cancelled', 'compensated')),
    decided_at BIGINT,
    decided_by TEXT COLLATE "C",
    decision_reason TEXT COLLATE "C",
    lease_until BIGINT,
    deadline_at BIGINT,
    acknowledged_at BIGINT,
    settle_restart_at BIGINT,
    set_back BIGINT NOT NULL CHECK (set_back >= 0),
    progress_message TEXT COLLATE "C",
    progress_fraction DOUBLE PRECISION,
    checkpoint TEXT COLLATE "C",
    progressed_at BIGINT,
    asked_context TEXT COLLATE "C",
    pruned_at BIGINT,
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
);

CREATE TABLE attempts (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 0),
    generation BIGINT NOT NULL CHECK (generation >= 0),
    principal TEXT COLLATE "C",
    conversation TEXT COLLATE "C",
    connection TEXT COLLATE "C",
    call_id TEXT COLLATE "C",
    reason TEXT COLLATE "C" NOT NULL,
    granted_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    ended_at BIGINT,
    outcome TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('open', 'unknown', 'refused', 'silent')),
    is_touched BIGINT NOT NULL CHECK (is_touched IN (0, 1)),
    retryable BIGINT NOT NULL CHECK (retryable IN (0, 1)),
    retry_at BIGINT,
    error TEXT COLLATE "C",
    set_back BIGINT NOT NULL,
    context TEXT COLLATE "C",
    workflow_version TEXT COLLATE "C",
    grant_id TEXT COLLATE "C",
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK ((number = 0) = (generation = 0)),
    CHECK ((number = 0) = (principal IS NULL)),
    CHECK (outcome <> 'open' OR ended_at IS NULL),
    CHECK (granted_at <= lease_until)
);

CREATE TABLE receipts (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 1),
    kind TEXT COLLATE "C" NOT NULL,
    system TEXT COLLATE "C" NOT NULL,
    external_id TEXT COLLATE "C",
    performed_at BIGINT,
    url TEXT COLLATE "C",
    evidence_digest TEXT COLLATE "C",
    final BIGINT NOT NULL CHECK (final IN (0, 1)),
    source TEXT COLLATE "C" NOT NULL,
    assurance BIGINT NOT NULL CHECK (assurance BETWEEN 0 AND 3),
    attempt BIGINT NOT NULL CHECK (attempt >= 0),
    recorded_at BIGINT NOT NULL,
    call_id TEXT COLLATE "C",
    is_accepted BIGINT NOT NULL CHECK (is_accepted IN (0, 1)),
    is_foreign BIGINT NOT NULL CHECK (is_foreign IN (0, 1)),
    is_unannounced BIGINT NOT NULL CHECK (is_unannounced IN (0, 1)),
    is_undo BIGINT NOT NULL CHECK (is_undo IN (0, 1)),
    is_set_aside BIGINT NOT NULL CHECK (is_set_aside IN (0, 1)),
    satisfies TEXT COLLATE "C",
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK (assurance = 0 OR external_id IS NOT NULL),
    CHECK (is_accepted = 0 OR (assurance > 0 AND final = 1 AND is_foreign = 0))
);

CREATE TABLE findings (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 1),
    finding TEXT COLLATE "C" NOT NULL
        CHECK (finding IN ('performed', 'not_performed', 'inconclusive', 'compensated')),
    checked_with TEXT COLLATE "C" NOT NULL,
    found_by TEXT COLLATE "C" NOT NULL,
    as_of BIGINT,
    attempt BIGINT NOT NULL CHECK (attempt >= 0),
    recorded_at BIGINT NOT NULL,
    evidence_digest TEXT COLLATE "C",
    call_id TEXT COLLATE "C",
    is_unsettling BIGINT NOT NULL CHECK (is_unsettling IN (0, 1)),
    is_persons BIGINT NOT NULL CHECK (is_persons IN (0, 1)),
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id)
);

-- The truth: every other table is a replay of this one. Chained per run: hash covers the one before it.
CREATE TABLE events (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL CHECK (seq >= 1),
    operation TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    data TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (namespace, run, seq)
);

-- What is too long, or too private, for the log: events hold digests, so that removing a body breaks no chain.
CREATE TABLE bodies (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, run, digest)
);

CREATE TABLE contexts (
    namespace TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, digest)
);

-- Compared across runs, as are the next two. `reference` stands for the reference in its key; see above.
CREATE TABLE external_ids (
    namespace TEXT COLLATE "C" NOT NULL,
    external_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    system TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    stands BIGINT NOT NULL CHECK (stands IN (0, 1)),
    reference TEXT COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        digest_of(length(external_id) || ' ' || external_id || length(kind) || ' ' || kind || system)
    ) STORED,
    PRIMARY KEY (namespace, operation, reference)
);

CREATE TABLE compensations (
    namespace TEXT COLLATE "C" NOT NULL,
    original TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, original, operation)
);

CREATE TABLE fingerprints (
    namespace TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, fingerprint, operation)
);

-- What belongs to no run: authority, and what a person accepted as lost; its log is a chain for each namespace.
CREATE TABLE namespaces (
    namespace TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    last_seq BIGINT NOT NULL CHECK (last_seq >= 0),
    head TEXT COLLATE "C" NOT NULL CHECK (length(head) = 64)
);

CREATE TABLE namespace_events (
    namespace TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL CHECK (seq >= 1),
    operation TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    data TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (namespace, seq)
);

CREATE TABLE grants (
    namespace TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL CHECK (source IN ('person', 'elicitation', 'configuration')),
    granted_at BIGINT NOT NULL,
    granted_by TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL CHECK (length(subject) > 0),
    action TEXT COLLATE "C" NOT NULL CHECK (length(action) > 0),
    target TEXT COLLATE "C" NOT NULL CHECK (length(target) > 0),
    constraints TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C",
    operation TEXT COLLATE "C",
    fingerprint TEXT COLLATE "C",
    payload_digest TEXT COLLATE "C",
    policy TEXT COLLATE "C",
    context TEXT COLLATE "C",
    not_before BIGINT,
    expires_at BIGINT,
    max_uses BIGINT CHECK (max_uses >= 1),
    adds_attempt BIGINT NOT NULL CHECK (adds_attempt IN (0, 1)),
    why TEXT COLLATE "C",
    request TEXT COLLATE "C",
    revoked_at BIGINT,
    revoked_why TEXT COLLATE "C",
    PRIMARY KEY (namespace, id),
    CHECK ((operation IS NULL) = (fingerprint IS NULL)),
    CHECK (operation IS NULL OR run IS NOT NULL),
    CHECK (operation IS NOT NULL OR (payload_digest IS NULL AND adds_attempt = 0))
);

CREATE TABLE authority_requests (
    namespace TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    asked_at BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C",
    operation TEXT COLLATE "C",
    fingerprint TEXT COLLATE "C",
    payload_digest TEXT COLLATE "C",
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    why TEXT COLLATE "C",
    asked_by TEXT COLLATE "C" NOT NULL,
    call_id TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('waiting', 'granted', 'declined')),
    answered_at BIGINT,
    grant_id TEXT COLLATE "C",
    PRIMARY KEY (namespace, id),
    CHECK ((state = 'waiting') = (answered_at IS NULL)),
    CHECK ((state = 'granted') = (grant_id IS NOT NULL)),
    CHECK ((operation IS NULL) = (fingerprint IS NULL))
);

CREATE TABLE grant_uses (
    namespace TEXT COLLATE "C" NOT NULL,
    grant_id TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    operation TEXT COLLATE "C" NOT NULL,
    is_held BIGINT NOT NULL CHECK (is_held IN (0, 1)),
    PRIMARY KEY (namespace, grant_id, operation)
);

CREATE TABLE restores (
    restored_at BIGINT NOT NULL PRIMARY KEY,
    backed_up_at BIGINT NOT NULL
);

-- An empty run stands for every run of the namespace, also for those that nobody has begun yet.
CREATE TABLE accepted_gaps (
    namespace TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    restored_at BIGINT NOT NULL REFERENCES restores (restored_at),
    accepted_at BIGINT NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, restored_at, run)
);

CREATE INDEX runs_by_touch ON runs (namespace, touched_at);
CREATE INDEX runs_by_workflow ON runs USING hash (workflow);
CREATE INDEX runs_by_parent ON runs (namespace, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_schedule ON runs USING hash (schedule_occurrence) WHERE schedule_name IS NOT NULL;
CREATE INDEX operations_by_target ON operations USING hash (target_folded);
CREATE INDEX operations_by_args ON operations (namespace, run, args_digest);
CREATE INDEX operations_by_state ON operations (namespace, run, state, position);
CREATE INDEX operations_by_change ON operations (namespace, updated_at DESC, id);
-- A call id is granted once per operation: the same call sent again gets the same grant.
CREATE UNIQUE INDEX attempts_by_call ON attempts (namespace, run, operation, digest_of(call_id))
    WHERE call_id IS NOT NULL;
CREATE INDEX events_by_operation ON events (namespace, run, operation, seq);
CREATE INDEX external_ids_by_id ON external_ids USING hash (external_id);
CREATE INDEX grants_by_run ON grants (namespace, run);
CREATE INDEX requests_by_state ON authority_requests (namespace, state, asked_at);
CREATE INDEX grant_uses_by_run ON grant_uses (namespace, run);
