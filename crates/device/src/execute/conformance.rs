//! The suite that every device must pass.
