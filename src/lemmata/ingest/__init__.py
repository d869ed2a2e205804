"""Readers: each turns one kind of source into records."""
