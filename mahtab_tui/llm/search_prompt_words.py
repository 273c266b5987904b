"""What the prompts of searches and the scripted models share: by these sentences and tags a model
that is played by a script recognises what it is asked."""

from __future__ import annotations

SEARCH = "You answer a query over a text that is too long to read, by writing Python."
"""The beginning of the system prompt of a search."""
PLAIN = "You answer a query from a text that is given to you."
"""The beginning of the system prompt of a call that runs no code."""
LAST_CALL = "This is the last message: no code runs any more."

QUERY = "search-query"
TEXT = "search-text"
OUTPUT = "search-output"
"""Tags around outside text, which cannot close them."""
