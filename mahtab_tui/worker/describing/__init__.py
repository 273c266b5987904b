"""Variables, tables and the environment in words, for a model and for the inspector."""
