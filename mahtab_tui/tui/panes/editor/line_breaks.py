"""Decides whether Enter runs Python code or starts a new line, and indents that line."""

from __future__ import annotations

import ast
import codeop
import re
import warnings

from mahtab_tui.kernel.worker.habits.lines import transform
from mahtab_tui.tui.panes.editor.pieces import bare, spans

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | codeop.PyCF_ALLOW_INCOMPLETE_INPUT  # type: ignore[attr-defined]
_TYPE_PARAMETERS = re.compile(r"^([ \t]*(?:async +def|def|class) +\w+)\[[^\[\]\n]*\]", re.MULTILINE)

STEP = "    "
"""A step of indentation."""
_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")

_WHOLE_CELL = re.compile(r"\s*%%")
_TIMED = re.compile(r"\s*%%time(?:it)?\b.*\n")
"""Magics that are followed by Python."""


def is_complete(source: str) -> bool:
    """Return whether Enter should run a cell. Invalid code is complete, so that its error is shown.

    A cell that ends with a block is incomplete until an empty line, as in Python and IPython; so is
    a ``%%magic``. ``!command``, ``%magic`` and ``object?`` count as the calls into which the kernel
    transforms them.
    """
    if _WHOLE_CELL.match(source) and not _TIMED.match(source):
        return "\n" in source.strip() and not source.rpartition("\n")[2].strip()
    # The kernel's Python may be newer than this one and have type parameters.
    readable = _TYPE_PARAMETERS.sub(r"\1", transform(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = compile(readable, "<input>", "exec", _FLAGS, dont_inherit=True)
    except SyntaxError as error:
        return "incomplete input" not in str(error)
    except (
        ValueError,
        RecursionError,
        MemoryError,
        SystemError,
    ):  # a NUL; too deep nesting; another thread is parsing (3.11)
        return True
    open_block = bool(tree.body) and (
        hasattr(tree.body[-1], "body") or hasattr(tree.body[-1], "cases")
    )
    return not (open_block and source.rpartition("\n")[2].strip())


def next_indent(before: str) -> str:
    """Return the indentation of a new line after the text before the cursor."""
    start = before.rfind("\n") + 1
    # A string or bracket that ends in this line belongs to the line in which it starts.
    for span in sorted(spans(before), reverse=True):
        if span.start < start <= span.end:
            start = before.rfind("\n", 0, span.start) + 1
    statement = before[start:]
    indent = statement[: len(statement) - len(statement.lstrip())]
    if bare(statement).rstrip().endswith((":", "(", "[", "{")):
        return indent + STEP
    if _LEAVES_BLOCK.match(statement):
        return indent[: -len(STEP)]
    return indent
