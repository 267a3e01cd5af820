-- Ids are UUIDv7 text, content hashes BLAKE3 hex, money nano-dollars, times microseconds UTC.
-- `origin` is the id of the ledger that a row was first written to; merged ledgers keep it.
-- A column that holds a large text holds the hash of an artifact.

CREATE TABLE meta (
    schema INTEGER NOT NULL,
    ledger_id TEXT NOT NULL,
    created_us INTEGER NOT NULL
) STRICT;

CREATE TABLE artifact (
    hash TEXT PRIMARY KEY,
    codec TEXT NOT NULL CHECK (codec IN ('raw', 'zstd')),
    bytes BLOB NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE task (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    files TEXT NOT NULL REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE device (
    id TEXT PRIMARY KEY,
    uuid TEXT,
    model TEXT NOT NULL,
    driver TEXT,
    sheet TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('auto', 'manual', 'sweep', 'replay')),
    settings TEXT NOT NULL,
    -- Decimal text: a seed is an unsigned 64-bit number.
    seed TEXT,
    judge_hash TEXT NOT NULL,
    toolchain_id TEXT NOT NULL,
    prompts_hash TEXT NOT NULL,
    task_hash TEXT NOT NULL REFERENCES task (hash),
    device_id TEXT NOT NULL REFERENCES device (id),
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'stopped', 'failed')),
    reason TEXT,
    event_count INTEGER NOT NULL,
    event_head TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE candidate (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL REFERENCES artifact (hash),
    plan TEXT NOT NULL REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE variant (
    id TEXT PRIMARY KEY,
    candidate_id TEXT NOT NULL REFERENCES candidate (id),
    "values" TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE attempt (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    task_hash TEXT NOT NULL REFERENCES task (hash),
    seq INTEGER NOT NULL CHECK (seq >= 1),
    parent_id TEXT REFERENCES attempt (id),
    mode TEXT NOT NULL,
    subset_notice INTEGER NOT NULL,
    prompt_hash TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('asked', 'sent', 'replied', 'parsed', 'built', 'judged', 'closed')
    ),
    kind TEXT,
    reason TEXT,
    detail TEXT,
    candidate_id TEXT REFERENCES candidate (id),
    variant_id TEXT REFERENCES variant (id),
    -- The plan as this attempt wrote it; a candidate keeps the first of several layouts.
    plan TEXT REFERENCES artifact (hash),
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    UNIQUE (run_id, task_hash, seq),
    CHECK ((state = 'closed') = (kind IS NOT NULL))
) STRICT;

CREATE INDEX attempt_in_hand ON attempt (run_id) WHERE state <> 'closed';

CREATE TABLE call (
    id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    try_index INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    ticket TEXT,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'sent', 'settled', 'failed', 'lost')),
    reserved_nusd INTEGER NOT NULL CHECK (reserved_nusd >= 0),
    reserved_tokens INTEGER NOT NULL CHECK (reserved_tokens >= 0),
    usage TEXT,
    cost_nusd INTEGER,
    price_row TEXT,
    http_log TEXT REFERENCES artifact (hash),
    reply TEXT REFERENCES artifact (hash),
    reply_model TEXT,
    finish_reason TEXT,
    latency_ms INTEGER,
    drift INTEGER NOT NULL DEFAULT 0,
    error_class TEXT,
    error_message TEXT,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    UNIQUE (attempt_id, try_index)
) STRICT;

-- An attempt never has two calls that may still cost money.
CREATE UNIQUE INDEX call_open ON call (attempt_id) WHERE state IN ('reserved', 'sent');

CREATE TABLE message (
    call_id TEXT NOT NULL REFERENCES call (id),
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    artifact TEXT NOT NULL REFERENCES artifact (hash),
    tokens INTEGER,
    origin TEXT NOT NULL,
    PRIMARY KEY (call_id, position)
) STRICT;

-- One row for each attempt that compiled: equal ids are the same compile.
CREATE TABLE build (
    attempt_id TEXT PRIMARY KEY REFERENCES attempt (id),
    id TEXT NOT NULL,
    variant_id TEXT NOT NULL REFERENCES variant (id),
    facts TEXT REFERENCES artifact (hash),
    diagnostics TEXT NOT NULL REFERENCES artifact (hash),
    log TEXT NOT NULL REFERENCES artifact (hash),
    ptx TEXT REFERENCES artifact (hash),
    cubin TEXT REFERENCES artifact (hash),
    -- JSON; why the build may not run. NULL when it may.
    verdict TEXT,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE INDEX build_by_id ON build (id);

CREATE TABLE evaluation (
    id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    variant_id TEXT NOT NULL REFERENCES variant (id),
    eval_key TEXT,
    stage TEXT NOT NULL,
    device_id TEXT NOT NULL REFERENCES device (id),
    kind TEXT NOT NULL,
    reason TEXT,
    detail TEXT NOT NULL,
    report TEXT REFERENCES artifact (hash),
    from_cache INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    UNIQUE (attempt_id, stage)
) STRICT;

CREATE INDEX evaluation_by_key ON evaluation (eval_key) WHERE eval_key IS NOT NULL;

CREATE TABLE case_result (
    evaluation_id TEXT NOT NULL REFERENCES evaluation (id),
    position INTEGER NOT NULL,
    "case" TEXT NOT NULL,
    distribution TEXT NOT NULL,
    hidden INTEGER NOT NULL,
    status TEXT NOT NULL,
    gates TEXT NOT NULL,
    worst REAL,
    origin TEXT NOT NULL,
    PRIMARY KEY (evaluation_id, position)
) STRICT;

CREATE TABLE danger (
    key TEXT PRIMARY KEY,
    what TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

-- Never exported: whoever knows the seeds knows the hidden inputs.
CREATE TABLE secret_seed (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    seeds TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE event (
    run_id TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT;

CREATE TRIGGER event_keeps_its_rows BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'event rows are append-only');
END;

CREATE TRIGGER event_loses_no_rows BEFORE DELETE ON event
BEGIN
    SELECT RAISE(ABORT, 'event rows are append-only');
END;
