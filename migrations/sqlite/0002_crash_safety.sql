-- The seed of a run is in secret_seed; this column never held one.
ALTER TABLE run DROP COLUMN seed;

-- A build is only looked up by its attempt.
DROP INDEX build_by_id;

-- A cached verdict holds only for what the same compiler built.
ALTER TABLE evaluation ADD COLUMN toolchain_id TEXT NOT NULL DEFAULT '';

UPDATE evaluation SET toolchain_id = (
    SELECT run.toolchain_id FROM attempt JOIN run ON run.id = attempt.run_id
    WHERE attempt.id = evaluation.attempt_id
);

-- A dangerous program keeps its verdict, not a sentence to be read back from. The sentence was
-- always `Kind/REASON: detail`.
ALTER TABLE danger RENAME TO danger_in_words;

CREATE TABLE danger (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    reason TEXT,
    detail TEXT NOT NULL,
    report TEXT REFERENCES artifact (hash),
    first_seen INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

INSERT INTO danger (key, kind, reason, detail, first_seen, origin)
SELECT
    key,
    substr(what, 1, instr(what, '/') - 1),
    substr(what, instr(what, '/') + 1, instr(what, ': ') - instr(what, '/') - 1),
    substr(what, instr(what, ': ') + 2),
    first_seen,
    origin
FROM danger_in_words;

DROP TABLE danger_in_words;
