-- Bearer tokens of callers over HTTP: of each only its SHA-256, by which it is found. Like grants they belong to no
-- run, and their log is the namespace's.
CREATE TABLE tokens (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL CHECK (length(name) > 0),
    sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
