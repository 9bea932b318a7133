-- Authority: what people permitted, what agents asked for, and which operation uses which permission.
-- These facts belong to no run: their log is a chain of its own for each namespace.

CREATE TABLE namespaces (
    namespace TEXT NOT NULL PRIMARY KEY,
    last_seq INTEGER NOT NULL CHECK (last_seq >= 0),
    head TEXT NOT NULL CHECK (length(head) = 64)
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace_events (
    namespace TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    operation TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    data TEXT NOT NULL,
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (namespace, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('person', 'elicitation', 'configuration')),
    granted_at INTEGER NOT NULL,
    granted_by TEXT NOT NULL,
    subject TEXT NOT NULL CHECK (length(subject) > 0),
    action TEXT NOT NULL CHECK (length(action) > 0),
    target TEXT NOT NULL CHECK (length(target) > 0),
    constraints TEXT NOT NULL,
    run TEXT,
    operation TEXT,
    fingerprint TEXT,
    payload_digest TEXT,
    policy TEXT,
    context TEXT,
    not_before INTEGER,
    expires_at INTEGER,
    max_uses INTEGER CHECK (max_uses >= 1),
    adds_attempt INTEGER NOT NULL CHECK (adds_attempt IN (0, 1)),
    why TEXT,
    request TEXT,
    revoked_at INTEGER,
    revoked_why TEXT,
    PRIMARY KEY (namespace, id),
    CHECK ((operation IS NULL) = (fingerprint IS NULL)),
    CHECK (operation IS NULL OR run IS NOT NULL),
    CHECK (operation IS NOT NULL OR (payload_digest IS NULL AND adds_attempt = 0))
) STRICT, WITHOUT ROWID;

CREATE INDEX grants_by_run ON grants (namespace, run);

CREATE TABLE authority_requests (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    run TEXT,
    operation TEXT,
    fingerprint TEXT,
    payload_digest TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    why TEXT,
    asked_by TEXT NOT NULL,
    call_id TEXT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'granted', 'declined')),
    answered_at INTEGER,
    grant_id TEXT,
    PRIMARY KEY (namespace, id),
    CHECK ((state = 'waiting') = (answered_at IS NULL)),
    CHECK ((state = 'granted') = (grant_id IS NOT NULL)),
    CHECK ((operation IS NULL) = (fingerprint IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_state ON authority_requests (namespace, state, asked_at);

-- Counted across runs: an operation is in a use of a grant while an attempt under it had, or may have had, its
-- effect.
CREATE TABLE grant_uses (
    namespace TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    is_held INTEGER NOT NULL CHECK (is_held IN (0, 1)),
    PRIMARY KEY (namespace, grant_id, operation)
) STRICT, WITHOUT ROWID;

CREATE INDEX grant_uses_by_run ON grant_uses (namespace, run);

ALTER TABLE attempts ADD COLUMN grant_id TEXT;
ALTER TABLE operations ADD COLUMN asked_context TEXT;
