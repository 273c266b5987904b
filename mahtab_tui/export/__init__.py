"""A session as a file: a notebook, a script, Markdown, or a page."""
