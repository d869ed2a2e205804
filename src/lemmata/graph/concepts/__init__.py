"""TODO graph.concepts."""
