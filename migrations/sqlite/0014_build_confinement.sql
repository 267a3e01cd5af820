-- What held the compiler's process, as JSON; nothing for builds from before this was kept.
ALTER TABLE build ADD COLUMN confinement TEXT;
