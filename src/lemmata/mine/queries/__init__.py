"""Queries for passages, by rules or by a language model, and the filter that keeps those that find their passage again."""
