-- name: read_journal
-- Exactly one row: the journal's own identity. Garbled text comes as bytes.
SELECT id, created_at, secret, backed_up_at FROM journal WHERE only = 1;

-- name: read_run
-- At most one row. Garbled text comes as bytes.
SELECT namespace, run, created_at, touched_at, last_seq, head, operations, workflow, workflow_version,
    finished_as, begun_at, goal, spec_uri, spec_digest, parent, schedule_name, schedule_occurrence, context,
    offered, criteria, holder, holder_name, held_until, finished_at, finish_reason, progress_message, progress_fraction, checkpoint
FROM runs
WHERE namespace = :namespace AND run = :run;

-- name: create_run
-- One row where the run is new; none where another caller made it first.
INSERT INTO runs (
    namespace, run, created_at, touched_at, last_seq, head, operations, workflow, workflow_version, finished_as
) VALUES (
    :namespace, :run, :created_at, :touched_at, 0, :head, 0, :workflow, :workflow_version, NULL
)
ON CONFLICT DO NOTHING
RETURNING run;

-- name: save_run
-- What the run's events say of it; its place in the log is moved by advance_run.
UPDATE runs
SET workflow = COALESCE(:workflow, workflow), workflow_version = COALESCE(:workflow_version, workflow_version),
    finished_as = :finished_as, begun_at = :begun_at, goal = :goal, spec_uri = :spec_uri,
    spec_digest = :spec_digest, parent = :parent, schedule_name = :schedule_name,
    schedule_occurrence = :schedule_occurrence, context = :context, offered = :offered, criteria = :criteria, holder = :holder,
    holder_name = :holder_name, held_until = :held_until, finished_at = :finished_at,
    finish_reason = :finish_reason, progress_message = :progress_message,
    progress_fraction = :progress_fraction, checkpoint = :checkpoint
WHERE namespace = :namespace AND run = :run;

-- name: advance_run
-- Compare and swap: changes one row, or none where another writer appended since the run was read.
UPDATE runs
SET touched_at = :touched_at, last_seq = :last_seq, head = :head, operations = :operations
WHERE namespace = :namespace AND run = :run AND last_seq = :expected_seq;

-- name: name_workflow
-- Apart from advance_run, because naming it touches an index, and most calls do not name it.
UPDATE runs
SET workflow = COALESCE(workflow, :workflow), workflow_version = COALESCE(:workflow_version, workflow_version)
WHERE namespace = :namespace AND run = :run;

-- name: list_runs
-- Most recently touched first: runs that are not finished, and any with an open question.
-- Garbled text comes as bytes.
SELECT namespace, run, created_at, touched_at, last_seq, head, operations, workflow, workflow_version,
    finished_as, begun_at, goal, spec_uri, spec_digest, parent, schedule_name, schedule_occurrence, context,
    offered, criteria, holder, holder_name, held_until, finished_at, finish_reason, progress_message, progress_fraction, checkpoint
FROM runs
WHERE namespace = :namespace
    AND (touched_at < :before_touched OR (touched_at = :before_touched AND run > :after_run))
    AND (
        :everything = 1
        OR finished_as IS NULL
        OR EXISTS (
            SELECT 1 FROM operations
            WHERE operations.namespace = runs.namespace AND operations.run = runs.run
                AND operations.state IN ('in_progress', 'in_doubt', 'disputed')
        )
    )
ORDER BY touched_at DESC, run ASC
LIMIT :most;

-- name: child_runs
-- The runs that a run started, newest first. The inner query finds them in the index of parents alone: without
-- it, every run of the namespace is read.
SELECT run, finished_as FROM runs
WHERE namespace = :namespace AND run IN (
    SELECT run FROM runs WHERE namespace = :namespace AND parent = :run AND parent IS NOT NULL)
ORDER BY created_at DESC, run
LIMIT :most;

-- name: same_occurrence
-- Another run that declares the same slot of the same schedule, found as child_runs finds its own.
SELECT run FROM runs
WHERE namespace = :namespace AND run <> :run AND run IN (
    SELECT run FROM runs
    WHERE namespace = :namespace AND schedule_name = :schedule_name AND schedule_name IS NOT NULL
        AND schedule_occurrence = :schedule_occurrence)
ORDER BY created_at, run
LIMIT 1;

-- name: count_states
-- Rows of a state and a number, some states twice: leases and deadlines that are over by :now are counted as what
-- they became. The settled ones, which may be many, are counted in the index of states alone, and really counted: to
-- take the rest of the run's operations for succeeded would say so of a row that is gone or garbled.
SELECT state AS state_now, COUNT(*) AS operations FROM operations
WHERE namespace = :namespace AND run = :run
GROUP BY state
HAVING state NOT IN ('in_progress', 'in_doubt', 'failed')
UNION ALL
SELECT
    CASE
        WHEN operations.deadline_at <= :now THEN 'timed_out'
        WHEN operations.state = 'in_progress' AND operations.lease_until <= :now THEN 'in_doubt'
        ELSE operations.state
    END AS state_now,
    COUNT(*) AS operations
FROM (
    SELECT key FROM operations
    WHERE namespace = :namespace AND run = :run AND state IN ('in_progress', 'in_doubt', 'failed')) AS found
CROSS JOIN operations
WHERE operations.namespace = :namespace AND operations.run = :run AND operations.key = found.key
GROUP BY state_now;

-- name: near_runs
-- Run names for a caller who named one that is not there, most recently touched first.
SELECT run FROM runs WHERE namespace = :namespace ORDER BY touched_at DESC LIMIT :most;

-- name: near_open_runs
-- Of the runs touched last those that are not finished, the last one touched first.
SELECT run FROM (
    SELECT run, finished_as, touched_at FROM runs WHERE namespace = :namespace ORDER BY touched_at DESC LIMIT :most
) AS recent
WHERE finished_as IS NULL
ORDER BY touched_at DESC, run;

-- name: read_operation
-- At most one row, by run and key.
-- Garbled text comes as bytes.
SELECT * FROM operations WHERE namespace = :namespace AND run = :run AND key = :key;

-- name: read_operation_by_id
-- At most one row, by id.
-- Garbled text comes as bytes.
SELECT * FROM operations WHERE namespace = :namespace AND id = :id;

-- name: read_operations_of_key
-- The operations of one key in whatever run, last changed first. The inner query makes it one search for each run:
-- without it, every operation of the namespace is read.
-- Garbled text comes as bytes.
SELECT * FROM operations
WHERE namespace = :namespace AND key = :key AND run IN (SELECT run FROM runs WHERE namespace = :namespace)
ORDER BY updated_at DESC LIMIT :most;

-- name: live_operations
-- The operations of a conversation, or of a connection, whose newest attempt may be live: some leases are over.
-- Garbled text comes as bytes.
SELECT * FROM operations AS live
WHERE live.namespace = :namespace AND live.state = 'in_progress' AND EXISTS (
    SELECT 1 FROM attempts AS held
    WHERE held.namespace = live.namespace AND held.run = live.run AND held.operation = live.id
        AND held.principal = :principal AND (held.conversation = :conversation OR held.connection = :connection)
)
ORDER BY live.run, live.key LIMIT :most;

-- name: held_runs
-- Which runs sessions hold, or held until their hold ran out.
SELECT run, holder, touched_at FROM runs WHERE namespace = :namespace AND holder IS NOT NULL ORDER BY run LIMIT :most;

-- name: read_operations
-- All operations of a run in the order in which they came.
-- Garbled text comes as bytes.
SELECT * FROM operations WHERE namespace = :namespace AND run = :run ORDER BY position;

-- name: read_unsettled_operations
-- The operations of a run that are not settled on record. The inner query finds them in the index of states alone:
-- without it, all those that are settled are read as well.
-- Garbled text comes as bytes.
SELECT * FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT key FROM operations
    WHERE namespace = :namespace AND run = :run
        AND state IN ('planned', 'in_progress', 'in_doubt', 'failed', 'disputed'))
ORDER BY position;

-- name: read_operations_in_state
-- The operations of a run that are in one state on record.
SELECT * FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT key FROM operations WHERE namespace = :namespace AND run = :run AND state = :state)
ORDER BY position;

-- name: read_satisfying_operations
-- The operations of a run with a receipt that says which criteria it satisfies.
SELECT operations.* FROM (
    SELECT DISTINCT operation FROM receipts
    WHERE namespace = :namespace AND run = :run AND satisfies IS NOT NULL) AS found
CROSS JOIN operations
WHERE operations.namespace = :namespace AND operations.id = found.operation
ORDER BY operations.position;

-- name: near_keys
-- The operations of a run whose keys come next before and after one that is not there, the nearest of each side.
SELECT id, run, key, state FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT key FROM (
        SELECT key FROM operations WHERE namespace = :namespace AND run = :run AND key < :key
        ORDER BY key DESC LIMIT :most) AS before_it
    UNION ALL
    SELECT key FROM (
        SELECT key FROM operations WHERE namespace = :namespace AND run = :run AND key > :key
        ORDER BY key LIMIT :most) AS after_it)
ORDER BY key;

-- name: any_trace
-- At most one row: whether anything tells of an effect that may be new: its row, its events, or another operation that
-- looks like it, be that one's row gone. Mostly nothing does, and this alone says so; where something does, what it is
-- is for read_operation, first_event, lost_twin and look_alikes to say, each of which a part here stands for.
SELECT 1 AS traced FROM operations WHERE namespace = :namespace AND run = :run AND key = :key
UNION ALL
SELECT 1 AS traced FROM events WHERE namespace = :namespace AND run = :run AND operation = :id
UNION ALL
SELECT 1 AS traced FROM fingerprints
WHERE namespace = :namespace AND fingerprint = :fingerprint AND run = :run
UNION ALL
SELECT 1 AS traced FROM operations
WHERE namespace = :namespace AND run = :run AND action = :action AND target_folded = :target_folded
    AND (target_folded <> '' OR fingerprint = :fingerprint)
UNION ALL
SELECT 1 AS traced FROM operations
WHERE namespace = :namespace AND run = :run AND action = :action AND args_digest = :args_digest
    AND (target_folded = '' OR :target_folded = ''
        OR replace(target_folded, :target_folded, '') <> target_folded
        OR replace(:target_folded, target_folded, '') <> :target_folded)
LIMIT 1;

-- name: look_alikes
-- Candidates only: the domain decides what looks alike. Of many, those that cannot be set aside come first.
-- A union, because each part then has an index of its own, and a large run is not read through. The last part finds
-- those whose own columns no longer tell what they are.
-- Garbled text comes as bytes.
SELECT * FROM operations
WHERE namespace = :namespace AND run = :run AND id <> :id
    AND key IN (
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
    )
ORDER BY
    CASE state WHEN 'succeeded' THEN 1 WHEN 'timed_out' THEN 1 WHEN 'cancelled' THEN 1 WHEN 'compensated' THEN 1
        ELSE 0 END,
    CASE WHEN fingerprint = :fingerprint THEN 0 ELSE 1 END,
    position
LIMIT 100;

-- name: settled_twins
-- Operations of a run that are settled and have the fingerprint of another one there that is planned or has failed and
-- was not made in the same moment; those that nobody began, with its action and target too. Two searches for each of
-- these; bounded, as look_alikes is.
-- Garbled text comes as bytes.
SELECT * FROM (
    SELECT twins.* FROM (
        SELECT id, fingerprint, created_at FROM operations
        WHERE namespace = :namespace AND run = :run AND key IN (
            SELECT key FROM operations
            WHERE namespace = :namespace AND run = :run AND state IN ('planned', 'failed'))) AS waiting
    CROSS JOIN fingerprints
    CROSS JOIN operations AS twins
    WHERE fingerprints.namespace = :namespace AND fingerprints.fingerprint = waiting.fingerprint
        AND fingerprints.run = :run AND fingerprints.operation <> waiting.id
        AND twins.namespace = :namespace AND twins.id = fingerprints.operation
        AND twins.created_at <> waiting.created_at AND twins.state IN ('succeeded', 'timed_out', 'compensated')
    LIMIT 100) AS same
UNION ALL
SELECT * FROM (
    SELECT twins.* FROM (
        SELECT id, action, target_folded, created_at FROM operations
        WHERE namespace = :namespace AND run = :run AND key IN (
            SELECT key FROM operations
            WHERE namespace = :namespace AND run = :run AND state IN ('planned', 'failed'))) AS waiting
    CROSS JOIN operations AS twins
    WHERE twins.namespace = :namespace AND twins.run = :run AND twins.action = waiting.action
        AND twins.target_folded = waiting.target_folded AND twins.target_folded <> '' AND twins.id <> waiting.id
        AND twins.began IS NULL
        AND twins.created_at <> waiting.created_at AND twins.state IN ('succeeded', 'timed_out', 'compensated')
    LIMIT 100) AS unannounced;

-- name: lost_twin
-- At most one row: an operation of the run with this fingerprint that was begun and whose row is gone.
SELECT operation FROM fingerprints
WHERE namespace = :namespace AND fingerprint = :fingerprint AND run = :run
    AND NOT EXISTS (
        SELECT 1 FROM operations
        WHERE operations.namespace = fingerprints.namespace AND operations.id = fingerprints.operation)
LIMIT 1;

-- name: open_operations
-- Operations of a run that nobody knows the outcome of, newest first.
SELECT id, run, key, state FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT key FROM operations
    WHERE namespace = :namespace AND run = :run AND state IN ('in_progress', 'in_doubt', 'disputed'))
ORDER BY position DESC
LIMIT :most;

-- name: open_of_holder
-- The newest other operations of the run that the caller began and recorded no outcome for. State by state,
-- because then the index gives them newest first, and of very many open ones only a few are read: of each state one
-- more than is shown. Which are the newest of both is for the caller to say: sorting none took longer than all else.
SELECT id, key, position FROM (
    SELECT id, key, position FROM operations
    WHERE namespace = :namespace AND run = :run AND state = 'in_progress' AND id <> :id
        AND EXISTS (
            SELECT 1 FROM attempts
            WHERE attempts.namespace = operations.namespace AND attempts.run = operations.run
                AND attempts.operation = operations.id
                AND attempts.outcome IN ('open', 'unknown') AND attempts.principal = :principal
                AND (attempts.conversation = :conversation
                    OR ((attempts.conversation IS NULL OR :conversation IS NULL)
                        AND attempts.connection = :connection))
        )
    ORDER BY position DESC
    LIMIT 6
) AS in_progress
UNION ALL
SELECT id, key, position FROM (
    SELECT id, key, position FROM operations
    WHERE namespace = :namespace AND run = :run AND state = 'in_doubt' AND id <> :id
        AND EXISTS (
            SELECT 1 FROM attempts
            WHERE attempts.namespace = operations.namespace AND attempts.run = operations.run
                AND attempts.operation = operations.id
                AND attempts.outcome IN ('open', 'unknown') AND attempts.principal = :principal
                AND (attempts.conversation = :conversation
                    OR ((attempts.conversation IS NULL OR :conversation IS NULL)
                        AND attempts.connection = :connection))
        )
    ORDER BY position DESC
    LIMIT 6
) AS in_doubt;

-- name: latest_operations
-- The most recently changed operations, newest first.
SELECT * FROM operations WHERE namespace = :namespace ORDER BY updated_at DESC, id LIMIT :most;

-- name: search_operations
-- Operations by all that is known of them, most recently changed first, after a place in that order. Texts are
-- patterns, in lower case and folded, of a word each, and all have to fit. Leases and deadlines that are over by :now
-- count as what they became. With a :moment, only those that were written, or whose time ran out, since then. The inner
-- query finds them in the index of changes alone: of what does not fit, however much it is, no row is read. A system of
-- few receipts is given as :rare_system as well, so that they are looked for once and not for each operation.
-- Garbled text comes as bytes.
SELECT operations.* FROM (
    SELECT run, key FROM operations
    WHERE namespace = :namespace
        AND updated_at >= :since AND updated_at <= :before AND (updated_at < :before OR id > :after)
        AND (:moment IS NULL
            OR updated_at >= :moment
            OR (state IN ('in_progress', 'in_doubt', 'failed') AND deadline_at > :moment AND deadline_at <= :now)
            OR (state = 'in_progress' AND lease_until > :moment AND lease_until <= :now))
        AND (:run IS NULL OR run = :run)
        AND (:action IS NULL OR action = :action)
        AND (:workflow IS NULL OR run IN (
            SELECT run FROM runs WHERE namespace = :namespace AND workflow = :workflow))
        AND (:external_id IS NULL OR id IN (
            SELECT operation FROM external_ids
            WHERE namespace = :namespace AND external_id = :external_id AND (:system IS NULL OR system = :system)))
        AND (:state IS NULL OR :state = CASE
            WHEN state IN ('in_progress', 'in_doubt', 'failed') AND deadline_at <= :now THEN 'timed_out'
            WHEN state = 'in_progress' AND lease_until <= :now THEN 'in_doubt'
            ELSE state
        END)
        AND (:text IS NULL
            OR lower(key || ' ' || action || ' ' || run) LIKE :text ESCAPE '!'
            OR target_folded LIKE :text_folded ESCAPE '!')
        AND (:second IS NULL
            OR lower(key || ' ' || action || ' ' || run) LIKE :second ESCAPE '!'
            OR target_folded LIKE :second_folded ESCAPE '!')
        AND (:third IS NULL
            OR lower(key || ' ' || action || ' ' || run) LIKE :third ESCAPE '!'
            OR target_folded LIKE :third_folded ESCAPE '!')
        AND (:fourth IS NULL
            OR lower(key || ' ' || action || ' ' || run) LIKE :fourth ESCAPE '!'
            OR target_folded LIKE :fourth_folded ESCAPE '!')
        AND (:fifth IS NULL
            OR lower(key || ' ' || action || ' ' || run) LIKE :fifth ESCAPE '!'
            OR target_folded LIKE :fifth_folded ESCAPE '!')
        AND (:rare_system IS NULL OR id IN (
            SELECT operation FROM receipts WHERE namespace = :namespace AND system = :rare_system))
        AND (:system IS NULL OR EXISTS (
            SELECT 1 FROM receipts
            WHERE receipts.namespace = operations.namespace AND receipts.run = operations.run
                AND receipts.operation = operations.id AND receipts.system = :system))
    ORDER BY updated_at DESC, id
    LIMIT :most) AS found
CROSS JOIN operations
WHERE operations.namespace = :namespace AND operations.run = found.run AND operations.key = found.key
ORDER BY operations.updated_at DESC, operations.id;

-- name: receipts_of_system
-- Exactly one row: how many receipts of a system there are, counted up to :most.
SELECT COUNT(*) AS receipts FROM (
    SELECT 1 FROM receipts WHERE namespace = :namespace AND system = :system LIMIT :most) AS counted;

-- name: suggest_runs
-- Run names that begin so, most recently touched first.
SELECT run AS name FROM runs
WHERE namespace = :namespace AND substr(run, 1, length(:beginning)) = :beginning
ORDER BY touched_at DESC, run
LIMIT :most;

-- name: suggest_operations
-- Operation ids that begin so, most recently changed first.
SELECT id AS name FROM operations
WHERE namespace = :namespace AND substr(id, 1, length(:beginning)) = :beginning
ORDER BY updated_at DESC, id
LIMIT :most;

-- name: save_operation
-- The row as it follows from the events written in the same transaction.
INSERT INTO operations (
    namespace, run, key, id, position, created_at, updated_at, since_floor, action, target_folded, args_digest,
    fingerprint, compensates, description, terms, links, began, clock, state, attempts, receipts, findings,
    standing_receipts, dispute, disputed_at, decision, decided_at, decided_by, decision_reason, lease_until,
    deadline_at, acknowledged_at, settle_restart_at, set_back, progress_message, progress_fraction, checkpoint,
    progressed_at, asked_context
) VALUES (
    :namespace, :run, :key, :id, :position, :created_at, :updated_at, :since_floor, :action, :target_folded,
    :args_digest, :fingerprint, :compensates, :description, :terms, :links, :began, :clock, :state, :attempts,
    :receipts, :findings, :standing_receipts, :dispute, :disputed_at, :decision, :decided_at, :decided_by,
    :decision_reason, :lease_until, :deadline_at, :acknowledged_at, :settle_restart_at, :set_back,
    :progress_message, :progress_fraction, :checkpoint, :progressed_at, :asked_context
)
ON CONFLICT (namespace, run, key) DO UPDATE SET
    updated_at = excluded.updated_at, action = excluded.action, target_folded = excluded.target_folded,
    args_digest = excluded.args_digest, fingerprint = excluded.fingerprint, compensates = excluded.compensates,
    description = excluded.description, terms = excluded.terms, links = excluded.links, began = excluded.began,
    clock = excluded.clock, state = excluded.state, attempts = excluded.attempts,
    receipts = excluded.receipts, findings = excluded.findings,
    standing_receipts = excluded.standing_receipts, dispute = excluded.dispute,
    disputed_at = excluded.disputed_at, decision = excluded.decision, decided_at = excluded.decided_at,
    decided_by = excluded.decided_by, decision_reason = excluded.decision_reason,
    lease_until = excluded.lease_until, deadline_at = excluded.deadline_at,
    acknowledged_at = excluded.acknowledged_at, settle_restart_at = excluded.settle_restart_at,
    set_back = excluded.set_back, progress_message = excluded.progress_message,
    progress_fraction = excluded.progress_fraction, checkpoint = excluded.checkpoint,
    progressed_at = excluded.progressed_at, asked_context = excluded.asked_context;

-- name: update_operation
-- How an operation stands that is still described as it was: what no index of its description holds.
UPDATE operations
SET updated_at = :updated_at, state = :state, attempts = :attempts, receipts = :receipts, findings = :findings,
    standing_receipts = :standing_receipts, dispute = :dispute, disputed_at = :disputed_at, decision = :decision,
    decided_at = :decided_at, decided_by = :decided_by, decision_reason = :decision_reason,
    lease_until = :lease_until, deadline_at = :deadline_at, acknowledged_at = :acknowledged_at,
    settle_restart_at = :settle_restart_at, set_back = :set_back
WHERE namespace = :namespace AND run = :run AND key = :key;

-- name: retell_operation
-- What was said of an operation beside its description; most commands leave it as it is.
UPDATE operations
SET terms = :terms, links = :links, began = :began, clock = :clock, progress_message = :progress_message,
    progress_fraction = :progress_fraction, checkpoint = :checkpoint, progressed_at = :progressed_at,
    asked_context = :asked_context
WHERE namespace = :namespace AND run = :run AND key = :key;

-- name: read_attempts
-- All attempts of an operation, oldest first.
-- Garbled text comes as bytes.
SELECT * FROM attempts
WHERE namespace = :namespace AND run = :run AND operation = :operation
ORDER BY number;

-- name: save_attempt
-- One attempt as it follows from the events.
INSERT INTO attempts (
    namespace, run, operation, number, generation, principal, conversation, connection, call_id, reason,
    granted_at, lease_until, ended_at, outcome, is_touched, retryable, retry_at, error, set_back, context,
    workflow_version, grant_id
) VALUES (
    :namespace, :run, :operation, :number, :generation, :principal, :conversation, :connection, :call_id,
    :reason, :granted_at, :lease_until, :ended_at, :outcome, :is_touched, :retryable, :retry_at, :error,
    :set_back, :context, :workflow_version, :grant_id
)
ON CONFLICT (namespace, run, operation, number) DO UPDATE SET
    granted_at = excluded.granted_at, lease_until = excluded.lease_until, ended_at = excluded.ended_at,
    outcome = excluded.outcome, is_touched = excluded.is_touched, retryable = excluded.retryable,
    retry_at = excluded.retry_at, error = excluded.error;

-- name: read_receipts
-- All receipts of an operation in the order in which they came.
-- Garbled text comes as bytes.
SELECT * FROM receipts
WHERE namespace = :namespace AND run = :run AND operation = :operation
ORDER BY number;

-- name: save_receipt
-- One receipt; what was recorded is never changed, only what it counts for.
INSERT INTO receipts (
    namespace, run, operation, number, kind, system, external_id, performed_at, url, evidence_digest,
    result_digest, final, source, assurance, attempt, recorded_at, call_id, satisfies, is_accepted, is_foreign,
    is_unannounced, is_undo, is_set_aside
) VALUES (
    :namespace, :run, :operation, :number, :kind, :system, :external_id, :performed_at, :url, :evidence_digest,
    :result_digest, :final, :source, :assurance, :attempt, :recorded_at, :call_id, :satisfies, :is_accepted,
    :is_foreign, :is_unannounced, :is_undo, :is_set_aside
)
ON CONFLICT (namespace, run, operation, number) DO UPDATE SET
    is_accepted = excluded.is_accepted, is_foreign = excluded.is_foreign, is_set_aside = excluded.is_set_aside;

-- name: remove_attempts
-- Every attempt row of an operation whose rows are made anew from its events.
DELETE FROM attempts WHERE namespace = :namespace AND run = :run AND operation = :operation;

-- name: remove_receipts
-- As remove_attempts: what was recorded stands in the events.
DELETE FROM receipts WHERE namespace = :namespace AND run = :run AND operation = :operation;

-- name: remove_findings
-- As remove_attempts.
DELETE FROM findings WHERE namespace = :namespace AND run = :run AND operation = :operation;

-- name: remove_operation
-- The row that stands in the way of the one that the events make, by its key and by its id.
DELETE FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT :key
    UNION ALL
    SELECT key FROM operations WHERE namespace = :namespace AND id = :id AND run = :run);

-- name: read_findings
-- All findings about an operation in the order in which they came.
-- Garbled text comes as bytes.
SELECT * FROM findings
WHERE namespace = :namespace AND run = :run AND operation = :operation
ORDER BY number;

-- name: save_finding
-- One finding; it never changes.
INSERT INTO findings (
    namespace, run, operation, number, finding, checked_with, found_by, as_of, attempt, recorded_at,
    evidence_digest, call_id, is_unsettling, is_persons
) VALUES (
    :namespace, :run, :operation, :number, :finding, :checked_with, :found_by, :as_of, :attempt, :recorded_at,
    :evidence_digest, :call_id, :is_unsettling, :is_persons
)
ON CONFLICT DO NOTHING;

-- name: append_event
-- One event under a number that is free: two writers cannot both take it.
INSERT INTO events (namespace, run, seq, operation, kind, at, caller, data, hash)
VALUES (:namespace, :run, :seq, :operation, :kind, :at, :caller, :data, :hash);

-- name: read_events
-- A stretch of a run's log, in order.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run AND seq > :after
ORDER BY seq
LIMIT :most;

-- name: audit_events
-- As read_events, for whoever tells what is damaged. Garbled text comes as bytes.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run AND seq > :after
ORDER BY seq
LIMIT :most;

-- name: read_operation_events
-- An operation's part of the log, in order. The inner query finds it in the index of operations alone, here and in
-- the next two: without it, the whole log of the run is read.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run AND seq IN (
    SELECT seq FROM events WHERE namespace = :namespace AND run = :run AND operation = :operation)
ORDER BY seq;

-- name: audit_operation_events
-- As read_operation_events, for whoever makes do with what is left. Garbled text comes as bytes.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run AND seq IN (
    SELECT seq FROM events WHERE namespace = :namespace AND run = :run AND operation = :operation)
ORDER BY seq;

-- name: context_events
-- What a run was told of its context, in order, as audit_operation_events reads it.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run AND seq IN (
    SELECT seq FROM events WHERE namespace = :namespace AND run = :run AND operation = '')
    AND kind IN ('run_begun', 'context_noted', 'context_told', 'drift_accepted')
ORDER BY seq;

-- name: first_event
-- At most one row: whether the log knows an operation, whatever became of its row.
SELECT seq FROM events
WHERE namespace = :namespace AND run = :run AND operation = :operation
LIMIT 1;

-- name: run_of_log
-- At most one row: the run whose log knows an operation, whatever became of its row and the run's. It searches each run
-- once, going from one to the next in the key of the log, since that has no index of operations alone: for ids that are
-- not there, which are rare.
WITH RECURSIVE logged(run) AS (
    SELECT MIN(run) FROM events WHERE namespace = :namespace
    UNION ALL
    SELECT (SELECT MIN(events.run) FROM events WHERE events.namespace = :namespace AND events.run > logged.run)
    FROM logged
    WHERE logged.run IS NOT NULL)
SELECT run FROM logged
WHERE EXISTS (
    SELECT 1 FROM events
    WHERE events.namespace = :namespace AND events.run = logged.run AND events.operation = :operation)
LIMIT 1;

-- name: first_event_of_run
-- At most one row: whether the log knows a run, whatever became of its row.
SELECT seq FROM events WHERE namespace = :namespace AND run = :run LIMIT 1;

-- name: read_acts
-- Who was granted the attempts of an operation, and who brought its receipts, newest first and bounded.
SELECT kind, at, caller, data FROM events
WHERE namespace = :namespace AND run = :run AND seq IN (
        SELECT seq FROM events WHERE namespace = :namespace AND run = :run AND operation = :operation)
    AND kind IN ('attempt_granted', 'receipt_recorded')
ORDER BY seq DESC
LIMIT :most;

-- name: called_before
-- At most one row: an event of that kind that the call of that id has caused.
SELECT seq FROM events
WHERE namespace = :namespace AND run = :run AND seq IN (
        SELECT seq FROM events WHERE namespace = :namespace AND run = :run AND operation = :operation)
    AND kind = :kind AND replace(caller, :call_id, '') <> caller
LIMIT 1;

-- name: latest_events
-- The newest events of a run, for people who watch.
SELECT * FROM events
WHERE namespace = :namespace AND run = :run
ORDER BY seq DESC
LIMIT :most;

-- name: save_body
-- Stored once: equal bodies of a run share a row.
INSERT INTO bodies (namespace, run, digest, body, stored_at)
VALUES (:namespace, :run, :digest, :body, :stored_at)
ON CONFLICT DO NOTHING;

-- name: read_body
-- At most one row. Garbled text comes as bytes.
SELECT body FROM bodies WHERE namespace = :namespace AND run = :run AND digest = :digest;

-- name: save_context
-- Stored once by digest.
INSERT INTO contexts (namespace, digest, body, stored_at)
VALUES (:namespace, :digest, :body, :stored_at)
ON CONFLICT DO NOTHING;

-- name: read_context
-- At most one row. Garbled text comes as bytes.
SELECT body FROM contexts WHERE namespace = :namespace AND digest = :digest;

-- name: save_external_id
-- Whose evidence a reference is; `stands` is 0 for what was set aside.
INSERT INTO external_ids (namespace, external_id, kind, system, run, operation, stands)
VALUES (:namespace, :external_id, :kind, :system, :run, :operation, :stands)
ON CONFLICT (namespace, external_id, kind, system, operation) DO UPDATE SET stands = excluded.stands;

-- name: other_owner
-- At most one row: another operation whose evidence this reference is.
SELECT operation FROM external_ids
WHERE namespace = :namespace AND external_id = :external_id AND kind = :kind AND system = :system
    AND operation <> :operation AND stands = 1
LIMIT 1;

-- name: other_owner_of_undoing
-- At most one row: as other_owner, but for the reference of an undoing, which is also that of whatever undid it.
SELECT operation FROM external_ids
WHERE namespace = :namespace AND external_id = :external_id AND kind = :kind AND system = :system
    AND operation <> :operation AND stands = 1
    AND operation NOT IN (
        SELECT operation FROM compensations WHERE namespace = :namespace AND original = :operation
    )
LIMIT 1;

-- name: owners
-- Every operation that a reference is on file for; first those of which it is evidence.
SELECT run, operation, MAX(stands) AS is_evidence FROM external_ids
WHERE namespace = :namespace AND external_id = :external_id AND (:system IS NULL OR system = :system)
GROUP BY run, operation
ORDER BY is_evidence DESC, run, operation
LIMIT 20;

-- name: save_compensation
-- Which operation undoes which.
INSERT INTO compensations (namespace, original, run, operation)
VALUES (:namespace, :original, :run, :operation)
ON CONFLICT DO NOTHING;

-- name: read_compensation
-- One row where an operation was begun to undo this one.
SELECT operation FROM compensations
WHERE namespace = :namespace AND original = :original AND operation = :operation;

-- name: compensators
-- Every operation that was begun to undo one.
SELECT run, operation FROM compensations WHERE namespace = :namespace AND original = :original LIMIT 20;

-- name: count_operations
-- How many operations of every namespace are in which state, and since when the longest unchanged one is. Leases and
-- deadlines that are over by :now count as what they became. Reads an index of all operations.
SELECT namespace,
    CASE
        WHEN state IN ('in_progress', 'in_doubt', 'failed') AND deadline_at <= :now THEN 'timed_out'
        WHEN state = 'in_progress' AND lease_until <= :now THEN 'in_doubt'
        ELSE state
    END AS shown_state,
    COUNT(*) AS number, MIN(updated_at) AS oldest
FROM operations
GROUP BY namespace, shown_state;

-- name: save_fingerprint
-- Where an effect was begun.
INSERT INTO fingerprints (namespace, fingerprint, run, operation)
VALUES (:namespace, :fingerprint, :run, :operation)
ON CONFLICT DO NOTHING;

-- name: same_effect_elsewhere
-- The same effect in other runs: only mentioned, never in the way. One more than is shown; no row of theirs
-- is read, which may be damaged.
SELECT run, operation FROM fingerprints
WHERE namespace = :namespace AND fingerprint = :fingerprint AND run <> :run
LIMIT 4;

-- name: all_runs
-- Every run of every namespace, for verification.
SELECT namespace, run, last_seq, head FROM runs ORDER BY namespace, run;

-- name: runs_on_file
-- As all_runs, and those of which only the log or operations are left.
SELECT namespace, run FROM runs
UNION SELECT namespace, run FROM operations
UNION SELECT namespace, run FROM events
ORDER BY namespace, run;

-- name: unfit_fingerprints
-- Every operation without its row, and every row that no operation stands behind now: only verification and repair
-- read so much. An effect that a plan left to its first begin has left another row, which its log explains.
-- Garbled text comes as bytes.
SELECT operations.namespace, operations.run, operations.id AS operation, operations.fingerprint, 1 AS is_lacking
FROM operations
WHERE NOT EXISTS (
    SELECT 1 FROM fingerprints
    WHERE fingerprints.namespace = operations.namespace AND fingerprints.fingerprint = operations.fingerprint
        AND fingerprints.operation = operations.id AND fingerprints.run = operations.run)
UNION ALL
SELECT fingerprints.namespace, fingerprints.run, fingerprints.operation, fingerprints.fingerprint, 0 AS is_lacking
FROM fingerprints
WHERE NOT EXISTS (
    SELECT 1 FROM operations
    WHERE operations.namespace = fingerprints.namespace AND operations.id = fingerprints.operation
        AND operations.run = fingerprints.run AND operations.fingerprint = fingerprints.fingerprint);

-- name: unfit_compensations
-- As unfit_fingerprints: what an operation undoes is said once.
-- Garbled text comes as bytes.
SELECT operations.namespace, operations.run, operations.id AS operation, operations.compensates AS original,
    1 AS is_lacking
FROM operations
WHERE operations.compensates IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM compensations
    WHERE compensations.namespace = operations.namespace AND compensations.original = operations.compensates
        AND compensations.operation = operations.id AND compensations.run = operations.run)
UNION ALL
SELECT compensations.namespace, compensations.run, compensations.operation, compensations.original, 0 AS is_lacking
FROM compensations
WHERE NOT EXISTS (
    SELECT 1 FROM operations
    WHERE operations.namespace = compensations.namespace AND operations.id = compensations.operation
        AND operations.run = compensations.run AND operations.compensates = compensations.original);

-- name: unfit_external_ids
-- As unfit_fingerprints, with receipts in place of operations. Where several receipts of an operation have one
-- reference, any of them says whether it stands.
-- Garbled text comes as bytes.
SELECT receipts.namespace, receipts.run, receipts.operation, receipts.external_id, receipts.kind, receipts.system,
    1 AS is_lacking
FROM receipts
WHERE receipts.external_id IS NOT NULL AND receipts.assurance > 0 AND NOT EXISTS (
    SELECT 1 FROM external_ids
    WHERE external_ids.namespace = receipts.namespace AND external_ids.external_id = receipts.external_id
        AND external_ids.kind = receipts.kind AND external_ids.system = receipts.system
        AND external_ids.operation = receipts.operation AND external_ids.run = receipts.run)
UNION ALL
SELECT external_ids.namespace, external_ids.run, external_ids.operation, external_ids.external_id,
    external_ids.kind, external_ids.system, 0 AS is_lacking
FROM external_ids
WHERE NOT EXISTS (
    SELECT 1 FROM receipts
    WHERE receipts.namespace = external_ids.namespace AND receipts.run = external_ids.run
        AND receipts.operation = external_ids.operation AND receipts.external_id = external_ids.external_id
        AND receipts.kind = external_ids.kind AND receipts.system = external_ids.system
        AND receipts.assurance > 0
        AND external_ids.stands
            = CASE WHEN receipts.is_foreign = 0 AND receipts.is_set_aside = 0 THEN 1 ELSE 0 END);

-- name: remove_fingerprint
-- A row that no operation's events lead to, whichever run it names.
DELETE FROM fingerprints
WHERE namespace = :namespace AND fingerprint = :fingerprint AND operation = :operation;

-- name: remove_compensation
-- As remove_fingerprint.
DELETE FROM compensations WHERE namespace = :namespace AND original = :original AND operation = :operation;

-- name: remove_external_id
-- As remove_fingerprint.
DELETE FROM external_ids
WHERE namespace = :namespace AND external_id = :external_id AND kind = :kind AND system = :system
    AND operation = :operation;

-- name: remove_grant_uses
-- As remove_attempts: which grants an operation uses follows from its events.
DELETE FROM grant_uses
WHERE namespace = :namespace AND (grant_id, operation) IN (
    SELECT grant_id, operation FROM grant_uses
    WHERE namespace = :namespace AND run = :run AND operation = :operation);

-- name: audit_bodies
-- As bodies_page, for whoever tells what is damaged. Garbled text comes as bytes.
SELECT digest, body, stored_at FROM bodies
WHERE namespace = :namespace AND run = :run AND digest > :after
ORDER BY digest
LIMIT :most;

-- name: audit_contexts
-- A stretch of the contexts of a namespace by digest. Garbled text comes as bytes.
SELECT digest, body, stored_at FROM contexts
WHERE namespace = :namespace AND digest > :after
ORDER BY digest
LIMIT :most;

-- name: read_namespace
-- At most one row: how far the log of what belongs to no run has come.
SELECT namespace, last_seq, head FROM namespaces WHERE namespace = :namespace;

-- name: create_namespace
-- Made with its first event.
INSERT INTO namespaces (namespace, last_seq, head) VALUES (:namespace, 0, :head)
ON CONFLICT DO NOTHING;

-- name: advance_namespace
-- Compare and swap: one row, or none where another writer appended since the namespace was read.
UPDATE namespaces SET last_seq = :last_seq, head = :head
WHERE namespace = :namespace AND last_seq = :expected_seq
RETURNING namespace;

-- name: all_namespaces
-- Every namespace with facts of its own, for verification: how far its log has come, without a head where
-- there is none. A fact that was slipped in beside no log is met as well.
SELECT named.namespace, COALESCE(logs.last_seq, 0) AS last_seq, logs.head
FROM (
    SELECT namespace FROM namespaces
    UNION SELECT namespace FROM namespace_events
    UNION SELECT namespace FROM grants
    UNION SELECT namespace FROM authority_requests
    UNION SELECT namespace FROM accepted_gaps
    UNION SELECT namespace FROM tokens
    UNION SELECT namespace FROM compactions
) AS named
LEFT JOIN namespaces AS logs ON logs.namespace = named.namespace
ORDER BY named.namespace;

-- name: append_namespace_event
-- One event under a number that is free.
INSERT INTO namespace_events (namespace, seq, operation, kind, at, caller, data, hash)
VALUES (:namespace, :seq, :operation, :kind, :at, :caller, :data, :hash);

-- name: read_namespace_events
-- A stretch of a namespace's own log, in order.
SELECT * FROM namespace_events
WHERE namespace = :namespace AND seq > :after
ORDER BY seq
LIMIT :most;

-- name: read_grants
-- The general grants, and those of one run (of all runs where none is named), oldest first.
SELECT * FROM grants
WHERE namespace = :namespace AND (:run IS NULL OR run IS NULL OR run = :run)
ORDER BY granted_at, id;

-- name: read_grant
-- At most one row.
SELECT * FROM grants WHERE namespace = :namespace AND id = :id;

-- name: save_grant
-- One grant as it follows from the events.
INSERT INTO grants (
    namespace, id, source, granted_at, granted_by, subject, action, target, constraints, run, operation,
    fingerprint, payload_digest, policy, context, not_before, expires_at, max_uses, adds_attempt, why, request,
    revoked_at, revoked_why
) VALUES (
    :namespace, :id, :source, :granted_at, :granted_by, :subject, :action, :target, :constraints, :run,
    :operation, :fingerprint, :payload_digest, :policy, :context, :not_before, :expires_at, :max_uses,
    :adds_attempt, :why, :request, :revoked_at, :revoked_why
)
ON CONFLICT (namespace, id) DO UPDATE SET
    granted_at = excluded.granted_at, subject = excluded.subject, action = excluded.action,
    target = excluded.target, constraints = excluded.constraints, policy = excluded.policy,
    not_before = excluded.not_before, expires_at = excluded.expires_at, max_uses = excluded.max_uses,
    revoked_at = excluded.revoked_at, revoked_why = excluded.revoked_why;

-- name: read_tokens
-- The tokens of a namespace, oldest first.
SELECT * FROM tokens WHERE namespace = :namespace ORDER BY created_at, id;

-- name: token_by_digest
-- At most one row, of whichever namespace: a digest is unique in the journal.
SELECT * FROM tokens WHERE sha256 = :digest;

-- name: save_token
-- One token as it follows from the events.
INSERT INTO tokens (namespace, id, name, sha256, scopes, created_at, created_by, expires_at, revoked_at)
VALUES (:namespace, :id, :name, :digest, :scopes, :created_at, :created_by, :expires_at, :revoked_at)
ON CONFLICT (namespace, id) DO UPDATE SET revoked_at = excluded.revoked_at;

-- name: read_compactions
-- When each conversation of a namespace was last compacted.
SELECT * FROM compactions WHERE namespace = :namespace ORDER BY conversation;

-- name: read_compaction
-- At most one row: when a conversation was last compacted.
SELECT * FROM compactions WHERE namespace = :namespace AND conversation = :conversation;

-- name: save_compaction
-- One compaction as it follows from the events.
INSERT INTO compactions (namespace, conversation, compacted_at)
VALUES (:namespace, :conversation, :compacted_at)
ON CONFLICT (namespace, conversation) DO UPDATE SET compacted_at = excluded.compacted_at;

-- name: latest_grant_of_conversation
-- Exactly one row: when a conversation was last granted an attempt, by the operations of the namespace that changed
-- last, and how many of those were looked through. No index is kept for it: it is asked once a compaction, and a begin
-- would have to write it.
SELECT MAX(held.granted_at) AS granted_at, COUNT(DISTINCT recent.id) AS looked_through
FROM (
    SELECT namespace, run, id FROM operations
    WHERE namespace = :namespace
    ORDER BY updated_at DESC, id
    LIMIT :most
) AS recent
LEFT JOIN attempts AS held
    ON held.namespace = recent.namespace AND held.run = recent.run AND held.operation = recent.id
    AND held.conversation = :conversation;

-- name: read_requests
-- Requests in one state (in all where none is named), oldest first.
SELECT * FROM authority_requests
WHERE namespace = :namespace AND (:state IS NULL OR state = :state)
ORDER BY asked_at, id;

-- name: read_request
-- At most one row.
SELECT * FROM authority_requests WHERE namespace = :namespace AND id = :id;

-- name: newest_request
-- At most one row: what a person was last asked for an operation, whatever came of it; of two at one time the one
-- that waits.
SELECT * FROM authority_requests
WHERE namespace = :namespace AND operation = :operation
ORDER BY asked_at DESC, CASE state WHEN 'waiting' THEN 0 ELSE 1 END, id
LIMIT 1;

-- name: requests_of_call
-- What a call asked for, so that the same call sent again asks for nothing new.
SELECT * FROM authority_requests
WHERE namespace = :namespace AND call_id = :call_id
ORDER BY asked_at, id;

-- name: declined_requests
-- What a person said no to of one action and target in a run, the newest first.
SELECT * FROM authority_requests
WHERE namespace = :namespace AND state = 'declined' AND run = :run AND action = :action AND target = :target
ORDER BY answered_at DESC, id;

-- name: save_request
-- One request as it follows from the events.
INSERT INTO authority_requests (
    namespace, id, asked_at, reason, run, operation, fingerprint, payload_digest, action, target, why,
    asked_by, call_id, state, answered_at, grant_id
) VALUES (
    :namespace, :id, :asked_at, :reason, :run, :operation, :fingerprint, :payload_digest, :action, :target,
    :why, :asked_by, :call_id, :state, :answered_at, :grant_id
)
ON CONFLICT (namespace, id) DO UPDATE SET
    state = excluded.state, answered_at = excluded.answered_at, grant_id = excluded.grant_id;

-- name: save_grant_use
-- Whether an operation is in a use of a grant.
INSERT INTO grant_uses (namespace, grant_id, run, operation, is_held)
VALUES (:namespace, :grant_id, :run, :operation, :is_held)
ON CONFLICT (namespace, grant_id, operation) DO UPDATE SET is_held = excluded.is_held;

-- name: count_grant_uses
-- Exactly one row: how many operations other than one are in a use of a grant.
SELECT COUNT(*) AS uses FROM grant_uses
WHERE namespace = :namespace AND grant_id = :grant_id AND is_held = 1 AND operation <> :operation;

-- name: read_grant_uses
-- The uses of the operations of a run, for verification.
SELECT grant_id, operation, is_held FROM grant_uses
WHERE namespace = :namespace AND (grant_id, operation) IN (
    SELECT grant_id, operation FROM grant_uses WHERE namespace = :namespace AND run = :run);

-- name: newest_restore
-- At most one row: the latest mark of lost history, of whatever namespace.
SELECT restored_at, backed_up_at FROM restores ORDER BY restored_at DESC LIMIT 1;

-- name: take_restore
-- A restore of another journal whose lack is this one's too; it may be on file already.
INSERT INTO restores (restored_at, backed_up_at) VALUES (:restored_at, :backed_up_at)
ON CONFLICT DO NOTHING;

-- name: restores_of_namespace
-- The marks of lost history that count in a namespace, the newest first: those of all, and those of its own.
SELECT restores.restored_at, restores.backed_up_at, own.copy_of
FROM restores
LEFT JOIN namespace_restores AS own
    ON own.namespace = :namespace AND own.restored_at = restores.restored_at
WHERE (own.namespace IS NOT NULL AND own.ended_at IS NULL)
    OR NOT EXISTS (SELECT 1 FROM namespace_restores AS any_of WHERE any_of.restored_at = restores.restored_at)
ORDER BY restores.restored_at DESC;

-- name: bind_restore
-- A mark that was just made, or is other namespaces' already, counts in this one too; it may do so already.
INSERT INTO namespace_restores (namespace, restored_at, copy_of)
VALUES (:namespace, :restored_at, :copy_of)
ON CONFLICT (namespace, restored_at) DO NOTHING;

-- name: end_restore_of_copy
-- The mark of one copy counts no longer. It stays on file, since somebody may have accepted its gap.
UPDATE namespace_restores SET ended_at = :ended_at
WHERE namespace = :namespace AND restored_at = :restored_at;

-- name: unbind_restore
-- The binding of a mark of a copy goes where nobody has accepted its gap.
DELETE FROM namespace_restores
WHERE namespace = :namespace
    AND restored_at = :restored_at
    AND NOT EXISTS (SELECT 1 FROM accepted_gaps WHERE accepted_gaps.restored_at = :restored_at);

-- name: remove_restore_of_copy
-- And then the mark itself, which names one moment twice and is no other namespace's.
DELETE FROM restores
WHERE restored_at = :restored_at
    AND restored_at = backed_up_at
    AND NOT EXISTS (SELECT 1 FROM namespace_restores WHERE namespace_restores.restored_at = :restored_at);

-- name: save_restore
-- One row per restore; its moment names it.
INSERT INTO restores (restored_at, backed_up_at) VALUES (:restored_at, :backed_up_at);

-- name: accepted_gap
-- At most one row: a person has accepted what the restore of that moment lacks, for this run or for all.
SELECT run, accepted_at FROM accepted_gaps
WHERE namespace = :namespace AND restored_at = :restored_at AND run IN (:run, '')
LIMIT 1;

-- name: read_accepted_gaps
-- What was accepted in a namespace, of every restore.
SELECT run, restored_at, accepted_at FROM accepted_gaps WHERE namespace = :namespace;

-- name: save_accepted_gap
-- One accepted gap as it follows from the events.
INSERT INTO accepted_gaps (namespace, run, restored_at, accepted_at, caller)
VALUES (:namespace, :run, :restored_at, :accepted_at, :caller)
ON CONFLICT (namespace, restored_at, run)
DO UPDATE SET accepted_at = excluded.accepted_at, caller = excluded.caller;

-- name: latest_touch
-- One row: the latest time that any run of any namespace was written to, null where there is none.
SELECT MAX(touched_at) AS touched_at FROM runs;

-- name: read_backup
-- One row: the moment of the backup that this file is, null where it is a journal in use.
SELECT backed_up_at, created_at FROM journal WHERE only = 1;

-- name: end_backup
-- The file is a journal in use from now on.
UPDATE journal SET backed_up_at = NULL WHERE only = 1;

-- name: undecided_operations
-- The operations of a run whose effect may be happening, or may have happened.
-- Garbled text comes as bytes.
SELECT * FROM operations
WHERE namespace = :namespace AND run = :run AND key IN (
    SELECT key FROM operations
    WHERE namespace = :namespace AND run = :run AND state IN ('in_progress', 'in_doubt', 'disputed'))
ORDER BY position;

-- name: runs_page
-- The runs of a namespace by name, from one name on.
SELECT namespace, run, created_at, touched_at, last_seq, head, operations, workflow, workflow_version
FROM runs
WHERE namespace = :namespace AND run > :after
ORDER BY run
LIMIT :most;

-- name: count_runs
-- Exactly one row: how much an export of one run, or of all, will hold.
SELECT COUNT(*) AS runs, COALESCE(SUM(operations), 0) AS operations, COALESCE(SUM(last_seq), 0) AS events
FROM runs
WHERE namespace = :namespace AND (:run IS NULL OR run = :run);

-- name: bodies_page
-- A stretch of the bodies of a run by digest.
SELECT digest, body, stored_at FROM bodies
WHERE namespace = :namespace AND run = :run AND digest > :after
ORDER BY digest
LIMIT :most;

-- name: body_on_file
-- At most one row: a body with the time since which it is there.
SELECT digest, body, stored_at FROM bodies WHERE namespace = :namespace AND run = :run AND digest = :digest;

-- name: first_run
-- At most one row: whether a namespace holds anything yet.
SELECT run FROM runs WHERE namespace = :namespace LIMIT 1;

-- name: namespaces_on_file
-- Every namespace that has runs.
SELECT DISTINCT namespace FROM runs ORDER BY namespace;

-- name: work_under_way
-- Exactly one row: attempts whose lease is not over, and runs that a session holds. The first is counted in the index
-- of changes alone.
SELECT
    (SELECT COUNT(*) FROM operations
    WHERE namespace = :namespace AND state = 'in_progress' AND lease_until > :now) AS attempts,
    (SELECT COUNT(*) FROM runs WHERE namespace = :namespace AND held_until > :now AND finished_as IS NULL) AS runs;

-- name: operations_compared
-- A stretch of the operations of a run by key, as they are compared with those of another journal. Leases and deadlines
-- that are over by :now count as what they became.
SELECT key, id, fingerprint, attempts, receipts, findings,
    CASE
        WHEN state IN ('in_progress', 'in_doubt', 'failed') AND deadline_at <= :now THEN 'timed_out'
        WHEN state = 'in_progress' AND lease_until <= :now THEN 'in_doubt'
        ELSE state
    END AS state_now
FROM operations
WHERE namespace = :namespace AND run = :run AND key > :after
ORDER BY key
LIMIT :most;

-- name: references_compared
-- A stretch of the references on file in a run, as they are compared with those of another journal; `is_known` tells
-- whether a reference would be found from another run.
SELECT operation, number, kind, system, external_id, is_foreign, is_set_aside,
    CASE WHEN assurance = 0 OR EXISTS (
        SELECT 1 FROM external_ids
        WHERE external_ids.namespace = receipts.namespace AND external_ids.external_id = receipts.external_id
            AND external_ids.kind = receipts.kind AND external_ids.system = receipts.system
            AND external_ids.operation = receipts.operation
    ) THEN 1 ELSE 0 END AS is_known
FROM receipts
WHERE namespace = :namespace AND run = :run AND external_id IS NOT NULL
    AND (operation > :operation OR (operation = :operation AND number > :number))
ORDER BY operation, number
LIMIT :most;

-- name: old_bodies
-- The bodies of a run that were stored before a moment, with their sizes.
SELECT digest, length(body) AS characters FROM bodies
WHERE namespace = :namespace AND run = :run AND stored_at < :before
ORDER BY digest;

-- name: remove_body
-- One row less, or none where it was removed before.
DELETE FROM bodies WHERE namespace = :namespace AND run = :run AND digest = :digest;

-- name: mark_pruned
-- The mark that stays where bodies of an operation were removed; the first one stands.
UPDATE operations SET pruned_at = COALESCE(pruned_at, :pruned_at)
WHERE namespace = :namespace AND run = :run AND id = :id;
