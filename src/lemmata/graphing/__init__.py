"""The verbs of the graph: each keeps what it found as records, and compresses the whole anew."""
