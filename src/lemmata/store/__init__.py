"""Records to disk and back: the only place that knows the file names of a workspace."""
