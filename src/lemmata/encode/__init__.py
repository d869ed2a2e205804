"""Texts to vectors: one protocol (`lemmata.types.Encoder`), four back-ends, `models.load_encoder` to choose."""
