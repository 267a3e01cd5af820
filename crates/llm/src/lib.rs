//! Turns a prompt into a reply.
