"""Searches from cells: `rlm`, its contexts, its answers and their log."""
