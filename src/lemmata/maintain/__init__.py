"""A workspace as a whole: what it holds, whether its files are intact, and copies in object stores."""
