"""The knowledge as text files, and how it is asked for."""
