-- A run works on one or many tasks; `run.task_hash` is the first of them.
CREATE TABLE run_task (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    task_hash TEXT NOT NULL REFERENCES task (hash),
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, position),
    UNIQUE (run_id, task_hash)
) STRICT;

INSERT INTO run_task (run_id, position, task_hash, origin)
SELECT id, 0, task_hash, origin FROM run;

-- What the model said apart from its answer.
ALTER TABLE call ADD COLUMN reasoning TEXT REFERENCES artifact (hash);
