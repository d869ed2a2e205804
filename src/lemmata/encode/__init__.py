"""Texts to vectors: one protocol (`lemmata.core.types.Encoder`), four back-ends, `load.load_encoder` to choose one."""
