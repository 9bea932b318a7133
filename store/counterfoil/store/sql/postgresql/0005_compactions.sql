-- When a conversation was last compacted: what it began before, its model no longer remembers. Like tokens they belong
-- to no run, and their log is the namespace's.
CREATE TABLE compactions (
    namespace TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL CHECK (length(conversation) > 0),
    compacted_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, conversation)
);
