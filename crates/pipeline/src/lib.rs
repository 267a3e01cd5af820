//! The pure core: the nouns of a run and the functions between them.
