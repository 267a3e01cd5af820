//! The host side of an evaluation: orders the children and decides the verdict.
