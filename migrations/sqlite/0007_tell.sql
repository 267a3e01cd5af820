-- What people told a run while it was on; the last word about each thing stands. A row without a
-- task is about the whole run.
CREATE TABLE tell (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL CHECK (position >= 0),
    task_hash TEXT REFERENCES task (hash),
    said TEXT NOT NULL,
    teller TEXT NOT NULL,
    told_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) STRICT;

CREATE TRIGGER tell_keeps_its_rows BEFORE UPDATE ON tell
BEGIN
    SELECT RAISE(ABORT, 'tell rows are append-only');
END;

CREATE TRIGGER tell_loses_no_rows BEFORE DELETE ON tell
BEGIN
    SELECT RAISE(ABORT, 'tell rows are append-only');
END;
