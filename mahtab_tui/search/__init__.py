"""Recursive search: a model that explores a text too large to read by writing code and by calling
itself on parts."""
