"""A workspace as a whole: what it holds, and whether its files are intact."""
