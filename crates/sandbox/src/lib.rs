//! Starts a child, talks to it, enforces its deadline, kills its group, reads one report.
