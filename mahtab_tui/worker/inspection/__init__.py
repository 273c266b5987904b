"""Looks inside any object, a page at a time; loaded on first use. Code of the user's objects runs
only on request."""
