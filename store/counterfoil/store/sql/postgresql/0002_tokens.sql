-- Bearer tokens of callers over HTTP: of each only its SHA-256, by which it is found. Like grants they belong to no
-- run, and their log is the namespace's.
CREATE TABLE tokens (
    namespace TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL CHECK (length(name) > 0),
    sha256 TEXT COLLATE "C" NOT NULL UNIQUE CHECK (length(sha256) = 64),
    scopes TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    PRIMARY KEY (namespace, id)
);
