-- What a long run is asked again and again, kept as it grows: a night's hundred thousand attempts
-- are too many to count each time.

-- The calls of closed attempts, which do not change any more, summed by their state.
CREATE TABLE run_total (
    run_id TEXT NOT NULL REFERENCES run (id),
    state TEXT NOT NULL,
    calls INTEGER NOT NULL,
    reserved_nusd INTEGER NOT NULL,
    reserved_tokens INTEGER NOT NULL,
    cost_nusd INTEGER NOT NULL,
    -- Calls whose price nobody knows.
    unpriced INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    -- Tokens of the calls whose provider did not count, at their worst case.
    uncounted_tokens INTEGER NOT NULL,
    drifted INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, state)
) STRICT;

INSERT INTO run_total
SELECT
    attempt.run_id,
    call.state,
    count(*),
    CAST(min(total(call.reserved_nusd), 9e18) AS INTEGER),
    sum(call.reserved_tokens),
    CAST(min(total(call.cost_nusd), 9e18) AS INTEGER),
    coalesce(sum(call.cost_nusd IS NULL AND call.price_row = '"unknown"'), 0),
    sum(coalesce(json_extract(call.usage, '$.input_tokens'), 0)),
    sum(coalesce(json_extract(call.usage, '$.output_tokens'), 0)),
    sum(coalesce(json_extract(call.usage, '$.cached_input_tokens'), 0)),
    sum(coalesce(json_extract(call.usage, '$.reasoning_tokens'), 0)),
    sum(CASE WHEN call.usage IS NULL THEN call.reserved_tokens ELSE 0 END),
    sum(call.drift),
    min(call.origin)
FROM attempt JOIN call ON call.attempt_id = attempt.id
WHERE attempt.state = 'closed'
GROUP BY attempt.run_id, call.state;

-- How the attempts at each task of a run ended, without reading the attempts.
CREATE INDEX attempt_ends ON attempt (run_id, task_hash, kind, seq);

-- The score and the outcome of hidden cases as the report has them, in JSON: NULL in rows of older
-- programs, whose report is read instead.
ALTER TABLE evaluation ADD COLUMN score TEXT;
ALTER TABLE evaluation ADD COLUMN promotion TEXT;

-- Whether a run waits for room or memory, without reading its log.
CREATE INDEX event_pauses ON event (run_id, seq) WHERE kind IN ('paused', 'went_on');

-- The best of a task's attempts up to `folded_to`, which are all closed; NULL where none is right.
ALTER TABLE run_task ADD COLUMN best_seq INTEGER;
ALTER TABLE run_task ADD COLUMN folded_to INTEGER NOT NULL DEFAULT 0;
