"""What a retriever is worth: measures per query, their certainty, runs on disk, and the report."""
