//! The real program end to end: replayed model, real NVRTC, real children, simulator, SQLite.

mod crashes;
mod demo;
mod hostile;
mod program;
mod task_files;
mod usage;
