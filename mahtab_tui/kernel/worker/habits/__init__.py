"""What people are used to at an interactive prompt, beyond Python: ``!command``, ``%magic``, ``object?``, `In`, `Out`, ``_``."""

from __future__ import annotations

SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""What the calls name that stand for lines that are no Python; they are in builtins."""

SIGNS = frozenset("!%?")
"""Without one of these a cell has no such line."""
