-- When a conversation was last compacted: what it began before, its model no longer remembers. Like tokens they belong
-- to no run, and their log is the namespace's.
CREATE TABLE compactions (
    namespace TEXT NOT NULL,
    conversation TEXT NOT NULL CHECK (length(conversation) > 0),
    compacted_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, conversation)
) STRICT, WITHOUT ROWID;
