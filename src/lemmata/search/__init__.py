"""From a query to hits: BM25, summaries, fusion, paths, answers, and the verb that builds the indexes."""
