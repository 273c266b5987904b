"""IPython's syntax and names at the prompt: ``!command``, ``%magic``, ``object?``, `In`, `Out`,
``_``."""

from __future__ import annotations

SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""Functions in builtins that are called instead of lines that are not Python."""

SIGNS = frozenset("!%?")
"""A cell without these has no such line."""
