"""The corpus in SQLite, its split, and what keeps test data out of training."""
