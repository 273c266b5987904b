"""Saves the namespace while the session runs, and restores it in a resumed session's kernel."""
