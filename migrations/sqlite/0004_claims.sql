-- From a verdict to a claim: full protocols, their steps, what they came to, who looked again.
-- What was measured is never changed: triggers forbid it, as they do for events.

CREATE TABLE acceptance (
    id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    variant_id TEXT NOT NULL REFERENCES variant (id),
    eval_key TEXT NOT NULL,
    -- What was measured, as it was built for this acceptance.
    ptx_hash TEXT NOT NULL,
    cubin_hash TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('claim', 'measurement', 'reproduction', 'recheck')),
    -- The claim of this ledger that is looked at again.
    of_claim TEXT REFERENCES claim (id),
    protocol TEXT NOT NULL REFERENCES artifact (hash),
    judge_hash TEXT NOT NULL,
    toolchain_id TEXT NOT NULL,
    device_id TEXT NOT NULL REFERENCES device (id),
    -- The process tree that began it: an independent look comes from another one.
    process TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'ended')),
    kind TEXT,
    reason TEXT,
    conclusion TEXT REFERENCES artifact (hash),
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    origin TEXT NOT NULL,
    CHECK ((state = 'ended') = (conclusion IS NOT NULL))
) STRICT;

CREATE INDEX acceptance_by_key ON acceptance (eval_key);

-- Whoever knows the seed knows the hidden inputs: it leaves the ledger only with its claim.
CREATE TABLE acceptance_seed (
    acceptance_id TEXT PRIMARY KEY REFERENCES acceptance (id),
    seed TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE acceptance_entry (
    acceptance_id TEXT NOT NULL REFERENCES acceptance (id),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    entry TEXT NOT NULL REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (acceptance_id, position)
) STRICT;

-- The windows among the entries, to be asked for by SQL. Samples are u64 nanoseconds and clocks u64
-- hertz, little-endian, cold ones first.
CREATE TABLE window (
    acceptance_id TEXT NOT NULL,
    entry_position INTEGER NOT NULL,
    "case" TEXT NOT NULL,
    subject TEXT NOT NULL,
    round INTEGER NOT NULL,
    position INTEGER NOT NULL,
    median_ns REAL,
    samples BLOB NOT NULL,
    clocks BLOB NOT NULL,
    flags_before TEXT NOT NULL,
    flags_after TEXT NOT NULL,
    void_reason TEXT,
    origin TEXT NOT NULL,
    PRIMARY KEY (acceptance_id, entry_position),
    FOREIGN KEY (acceptance_id, entry_position)
        REFERENCES acceptance_entry (acceptance_id, position)
) STRICT;

-- Pilots: how fast each baseline is, once for a task, case, model of GPU, framework and judge.
CREATE TABLE baseline (
    task_hash TEXT NOT NULL REFERENCES task (hash),
    "case" TEXT NOT NULL,
    baseline TEXT NOT NULL,
    device_model TEXT NOT NULL,
    framework TEXT NOT NULL,
    judge_hash TEXT NOT NULL,
    record TEXT NOT NULL REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (task_hash, "case", baseline, device_model, framework, judge_hash)
) STRICT;

CREATE TABLE claim (
    id TEXT PRIMARY KEY,
    acceptance_id TEXT NOT NULL UNIQUE REFERENCES acceptance (id),
    baseline TEXT NOT NULL,
    -- JSON, on the log of baseline time over candidate time.
    interval TEXT NOT NULL,
    baseline_set TEXT NOT NULL CHECK (baseline_set IN ('framework', 'native')),
    claim TEXT NOT NULL REFERENCES artifact (hash),
    -- Of the run's chain just before the event of this claim.
    chain_head TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('claimed', 'confirmed', 'withdrawn')),
    why TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

-- A claim that was looked at again: one of this ledger, or one that a bundle brought.
CREATE TABLE claim_check (
    acceptance_id TEXT PRIMARY KEY REFERENCES acceptance (id),
    claim_id TEXT REFERENCES claim (id),
    bundle TEXT,
    outcome TEXT NOT NULL CHECK (
        outcome IN ('reproduced', 'not_reproduced', 'not_comparable', 'holds', 'weaker', 'lost')
    ),
    detail TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE review (
    acceptance_id TEXT PRIMARY KEY REFERENCES acceptance (id),
    suspicion TEXT NOT NULL,
    detail TEXT NOT NULL,
    decision TEXT CHECK (decision IN ('accepted', 'rejected')),
    note TEXT,
    created_us INTEGER NOT NULL,
    decided_us INTEGER,
    origin TEXT NOT NULL,
    CHECK ((decision IS NULL) = (decided_us IS NULL))
) STRICT;

CREATE TRIGGER acceptance_entry_keeps_its_rows BEFORE UPDATE ON acceptance_entry
BEGIN
    SELECT RAISE(ABORT, 'acceptance_entry rows are append-only');
END;

CREATE TRIGGER acceptance_entry_loses_no_rows BEFORE DELETE ON acceptance_entry
BEGIN
    SELECT RAISE(ABORT, 'acceptance_entry rows are append-only');
END;

CREATE TRIGGER window_keeps_its_rows BEFORE UPDATE ON window
BEGIN
    SELECT RAISE(ABORT, 'window rows are append-only');
END;

CREATE TRIGGER window_loses_no_rows BEFORE DELETE ON window
BEGIN
    SELECT RAISE(ABORT, 'window rows are append-only');
END;

-- What a task showed of itself: the newest look of a judge at it. A look draws its own inputs.
CREATE TABLE admission (
    task_hash TEXT NOT NULL REFERENCES task (hash),
    judge_hash TEXT NOT NULL,
    toolchain_id TEXT NOT NULL,
    tier TEXT NOT NULL CHECK (tier IN ('proven', 'weak', 'refused')),
    -- How every mutant and every wrong kernel fared.
    admission TEXT NOT NULL REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (task_hash, judge_hash, toolchain_id)
) STRICT;
