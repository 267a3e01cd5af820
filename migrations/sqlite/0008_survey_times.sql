-- How fast a baseline was at a task's headline, measured by a survey: without a candidate, and so
-- in no acceptance and in no run's chain. Under the same key nothing is measured again.
CREATE TABLE survey_time (
    task_hash TEXT NOT NULL REFERENCES task (hash),
    baseline TEXT NOT NULL,
    device_model TEXT NOT NULL,
    driver TEXT NOT NULL,
    -- Versions of what computes it; empty for kernels and libraries that the program runs itself.
    framework TEXT NOT NULL,
    judge_hash TEXT NOT NULL,
    toolchain_id TEXT NOT NULL,
    -- JSON: median, spread and number of samples, in nanoseconds.
    spread TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (
        task_hash, baseline, device_model, driver, framework, judge_hash, toolchain_id
    )
) STRICT;
