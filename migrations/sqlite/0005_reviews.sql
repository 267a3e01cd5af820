-- Who decided about what was suspect; older decisions have nobody's name.
ALTER TABLE review ADD COLUMN reviewer TEXT;

-- What people decided about claims, one row for each time; the last one stands.
CREATE TABLE approval (
    claim_id TEXT NOT NULL REFERENCES claim (id),
    position INTEGER NOT NULL CHECK (position >= 0),
    decision TEXT NOT NULL CHECK (decision IN ('accepted', 'rejected')),
    reason TEXT NOT NULL,
    reviewer TEXT NOT NULL,
    decided_us INTEGER NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (claim_id, position)
) STRICT;

CREATE TRIGGER approval_keeps_its_rows BEFORE UPDATE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval rows are append-only');
END;

CREATE TRIGGER approval_loses_no_rows BEFORE DELETE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval rows are append-only');
END;
