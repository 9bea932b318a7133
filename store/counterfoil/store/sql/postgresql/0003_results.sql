-- What a tool answered, where the server took the receipt from that answer: whoever makes the same call again is
-- given it. The text lies among the bodies.
ALTER TABLE receipts ADD COLUMN result_digest TEXT COLLATE "C";

-- Whoever records calls for an agent asks at each of them which attempts are live, and which runs are held. There
-- are few of either at any time, however many operations and runs there are.
CREATE INDEX operations_live ON operations (namespace, run, key) WHERE state = 'in_progress';
CREATE INDEX runs_held ON runs (namespace, run) WHERE holder IS NOT NULL;
