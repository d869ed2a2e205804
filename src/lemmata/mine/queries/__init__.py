"""Queries for passages, by rules or by a language model; a filter keeps those that find their passage again."""
