"""The weights of the encoder lemmata-base; lemmata finds them by the name of this package."""
