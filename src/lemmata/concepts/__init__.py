"""Concepts of a corpus: their names, relations and mentions, by rules and by a model; merging."""
