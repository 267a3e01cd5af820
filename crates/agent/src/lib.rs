//! The loop: ask for the next step, perform it, persist it, repeat.
