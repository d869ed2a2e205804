"""What a corpus speaks about: concepts, the relations between them, and where they are mentioned."""
