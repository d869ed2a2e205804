"""Texts to vectors: one protocol (`lemmata.types.Encoder`), four back-ends, `load.load_encoder` to choose one."""
