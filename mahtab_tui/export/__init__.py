"""Exports a session to a file: a notebook, a script, Markdown, or a page."""
