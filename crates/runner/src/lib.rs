//! The code that lives inside the children: one request in, one report out, exit.
