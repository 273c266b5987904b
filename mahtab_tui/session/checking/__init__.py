"""Runs the cells of a session or a notebook again, in a copy of the project, and compares."""
