"""Whether Enter should run a text or open a line in it."""

from __future__ import annotations

import ast
import codeop
import warnings

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def is_complete(source: str) -> bool:
    """Whether a cell can run as it stands. One that is wrong is complete, so that its error is shown.

    A block is complete once an empty line has ended it, as at Python's own prompt; a text of several blocks, once its last one is.
    """
    if not source.strip() or source.lstrip().startswith("!"):
        return True
    compiler = codeop.Compile()
    compiler.flags |= _AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if codeop._maybe_compile(compiler, source, "<input>", "exec") is None:  # type: ignore[attr-defined]
                return False
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return True
    return not _in_block(source)


def _in_block(source: str) -> bool:
    """Whether the last line is an indented one that more could follow."""
    lines = source.split("\n")
    if not lines[-1].strip():
        return False
    return lines[-1][:1] in (" ", "\t") and len(lines) > 1
