"""Looks inside any object, a page at a time; loaded on first use."""
