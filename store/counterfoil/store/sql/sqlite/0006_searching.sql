-- A search reads the operations of a whole namespace, most recently changed first. It finds all that it asks about in
-- the index of changes now, and touches the rows, each with a page or two of its own, only of what it gives. The index
-- is the one that every change moved before: it is wider, and there is none more.
DROP INDEX operations_by_change;
CREATE INDEX operations_by_change ON operations (
    namespace, updated_at DESC, id, run, key, action, target_folded, state, lease_until, deadline_at
);
