"""Lines that identify a conversation of a search: the engine writes them, the demo model reads
them."""

from __future__ import annotations

SEARCH = "You answer a query over a text that is too long to read, by writing Python."
"""First line of the system prompt of a node that writes code."""

PLAIN = "You answer a query from a text that is given to you."
"""First line of the system prompt of a plain call."""

LAST_CALL = "This is the last message: no code runs any more."
"""First line of the message that asks for the best answer so far."""

QUERY, TEXT, OUTPUT = "search-query", "search-text", "search-output"
"""Tags around outside text, which cannot close them."""
