"""Training data from a corpus and its graph: splits first, then miners that see one part only."""
