"""Runs the code of a search in processes that can reach nothing but their text and the engine."""
