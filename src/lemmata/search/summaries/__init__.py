"""TODO search.summaries."""
