"""Saves the namespace to disk while the session runs, and restores it in the kernel of a resumed
session."""
