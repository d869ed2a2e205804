"""Search along the edges of a graph: shortest paths from the nearest passages, and diffusion of scores."""
