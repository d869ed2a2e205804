"""Evaluation of retrievers: tasks, significance, reports, TREC runs, mteb."""
