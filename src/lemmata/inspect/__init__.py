"""What an encoder sees: its tokens, norms, attention, the space of its vectors, and what training changed in them."""
