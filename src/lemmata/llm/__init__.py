"""Language models: a client that can be relied on, and the reading of what they answer."""
