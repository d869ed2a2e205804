"""Rows for queries: exact and approximate search over vectors, and BM25 over words."""
