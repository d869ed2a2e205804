"""LaTeX as people really write it, read as text; knows no disk and no corpus."""
