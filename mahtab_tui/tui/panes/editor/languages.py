"""Tells prose from Python, to offer the other mode for what was typed in the wrong one."""

from __future__ import annotations

import ast
import re
import warnings

LONGEST = 2_000
"""Characters of a text that is looked at: it is parsed with each key."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[,.;:?!…]*|\d+[,.?!%]*")
_CODE_NODES = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Attribute,
    ast.BinOp,
    ast.Call,
    ast.Compare,
    ast.Import,
    ast.ImportFrom,
    ast.Subscript,
)


def is_prose(text: str) -> bool:
    """Return whether a text is a sentence of at least three words that is no Python."""
    words = text[: LONGEST + 1].split()
    if len(text) > LONGEST or len(words) < 3 or _parsed(text) is not None:
        return False
    return 5 * sum(_WORD.fullmatch(word) is not None for word in words) >= 4 * len(words)


def is_code(text: str) -> bool:
    """Return whether a text is Python that does something, rather than words that happen to be
    Python, too."""
    tree = _parsed(text) if len(text) <= LONGEST else None
    return tree is not None and any(isinstance(node, _CODE_NODES) for node in ast.walk(tree))


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
