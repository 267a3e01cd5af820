-- Time for which a card was held for evaluations of a run: reserved before one begins, and what it
-- took once it has ended. What a dead program held stays booked at its reservation.
CREATE TABLE card_time (
    id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    -- What was evaluated: search, promote or accept.
    stage TEXT NOT NULL,
    reserved_us INTEGER NOT NULL CHECK (reserved_us >= 0),
    used_us INTEGER CHECK (used_us >= 0),
    created_us INTEGER NOT NULL,
    ended_us INTEGER,
    origin TEXT NOT NULL
) STRICT;

CREATE INDEX card_time_by_attempt ON card_time (attempt_id);
