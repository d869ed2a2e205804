"""Short texts about passages by which search finds them, too: where they come from, how they are stored and scored."""
