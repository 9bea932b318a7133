-- What has to be said otherwise in PostgreSQL than in queries.sql.

-- name: read_journal
-- Exactly one row: the journal's own identity.
-- Differs because ONLY is a reserved word and has to be quoted.
SELECT id, created_at, secret, backed_up_at FROM journal WHERE "only" = 1;

-- name: read_backup
-- One row: the moment of the backup that this is, null where it is a journal in use.
-- Differs because ONLY is a reserved word and has to be quoted.
SELECT backed_up_at, created_at FROM journal WHERE "only" = 1;

-- name: end_backup
-- The journal is in use from now on.
-- Differs because ONLY is a reserved word and has to be quoted.
UPDATE journal SET backed_up_at = NULL WHERE "only" = 1;

-- name: save_external_id
-- Whose evidence a reference is; `stands` is 0 for what was set aside.
-- Differs because a reference may be too long for a key, in which its digest stands for it.
INSERT INTO external_ids (namespace, external_id, kind, system, run, operation, stands)
VALUES (:namespace, :external_id, :kind, :system, :run, :operation, :stands)
ON CONFLICT (namespace, operation, reference) DO UPDATE SET stands = excluded.stands;

-- name: count_runs
-- Exactly one row: how much an export of one run, or of all, will hold.
-- Differs because a sum of bigint is numeric.
SELECT COUNT(*) AS runs, COALESCE(SUM(operations), 0)::bigint AS operations,
    COALESCE(SUM(last_seq), 0)::bigint AS events
FROM runs
WHERE namespace = :namespace AND (:run IS NULL OR run = :run);

-- name: look_alikes
-- Candidates only: the domain decides what looks alike. Of many, those that cannot be set aside come first.
-- Garbled text comes as bytes.
-- Differs because before a table has statistics PostgreSQL asks the inner query anew for each operation of the run;
-- made an array, it is asked once.
SELECT * FROM operations
WHERE namespace = :namespace AND run = :run AND id <> :id
    AND key = ANY (ARRAY(
        SELECT key FROM operations
        WHERE namespace = :namespace AND run = :run AND action = :action AND target_folded = :target_folded
            AND (target_folded <> '' OR fingerprint = :fingerprint)
        UNION ALL
        SELECT key FROM operations
        WHERE namespace = :namespace AND run = :run AND action = :action AND args_digest = :args_digest
            AND (target_folded = '' OR :target_folded = ''
                OR replace(target_folded, :target_folded, '') <> target_folded
                OR replace(:target_folded, target_folded, '') <> :target_folded)
        UNION ALL
        SELECT operations.key FROM fingerprints
        CROSS JOIN operations
        WHERE fingerprints.namespace = :namespace AND fingerprints.fingerprint = :fingerprint
            AND fingerprints.run = :run
            AND operations.namespace = :namespace AND operations.id = fingerprints.operation
    ))
ORDER BY
    CASE state WHEN 'succeeded' THEN 1 WHEN 'timed_out' THEN 1 WHEN 'cancelled' THEN 1 WHEN 'compensated' THEN 1
        ELSE 0 END,
    CASE WHEN fingerprint = :fingerprint THEN 0 ELSE 1 END,
    position
LIMIT 100;
