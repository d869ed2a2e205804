"""The graph that runs through a corpus: how it is built, read, written and embedded."""
