-- A mark of lost history that is one namespace's only; one without a row here is every namespace's. `copy_of` is the
-- journal whose copy into that namespace has not ended; `ended_at` when it did, where somebody had accepted the gap.
CREATE TABLE namespace_restores (
    namespace TEXT NOT NULL,
    restored_at INTEGER NOT NULL REFERENCES restores (restored_at),
    copy_of TEXT,
    ended_at INTEGER,
    PRIMARY KEY (namespace, restored_at)
) STRICT, WITHOUT ROWID;
