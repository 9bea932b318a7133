-- A mark of lost history that is one namespace's only; one without a row here is every namespace's. `copy_of` is the
-- journal whose copy into that namespace has not ended; `ended_at` when it did, where somebody had accepted the gap.
CREATE TABLE namespace_restores (
    namespace TEXT COLLATE "C" NOT NULL,
    restored_at BIGINT NOT NULL REFERENCES restores (restored_at),
    copy_of TEXT COLLATE "C",
    ended_at BIGINT,
    PRIMARY KEY (namespace, restored_at)
);
