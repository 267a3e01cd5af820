//! The ledger: every attempt with its provenance, in SQLite.
