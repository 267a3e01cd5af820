-- What counts against each task of a run, kept as it grows: every decision asks for it where
-- operators have allotments or a run has a limit of GPU-seconds.

-- Money for the calls of closed attempts, which do not change any more: paid, or the worst case
-- where nobody knows.
CREATE TABLE task_money (
    run_id TEXT NOT NULL REFERENCES run (id),
    task_hash TEXT NOT NULL REFERENCES task (hash),
    nusd INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, task_hash)
) STRICT;

INSERT INTO task_money
SELECT attempt.run_id, attempt.task_hash,
    CAST(min(total(CASE WHEN call.state IN ('settled', 'failed')
        THEN call.cost_nusd ELSE call.reserved_nusd END), 9e18) AS INTEGER),
    min(call.origin)
FROM attempt JOIN call ON call.attempt_id = attempt.id
WHERE attempt.state = 'closed'
GROUP BY attempt.run_id, attempt.task_hash;

-- Time on cards of evaluations that have ended.
CREATE TABLE task_card_time (
    run_id TEXT NOT NULL REFERENCES run (id),
    task_hash TEXT NOT NULL REFERENCES task (hash),
    used_us INTEGER NOT NULL,
    evaluations INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, task_hash)
) STRICT;

INSERT INTO task_card_time
SELECT attempt.run_id, attempt.task_hash, sum(card_time.used_us), count(*), min(card_time.origin)
FROM attempt JOIN card_time ON card_time.attempt_id = attempt.id
WHERE card_time.used_us IS NOT NULL
GROUP BY attempt.run_id, attempt.task_hash;

-- The few evaluations that have not ended: under way, or lost with their program.
CREATE INDEX card_time_open ON card_time (attempt_id) WHERE used_us IS NULL;
