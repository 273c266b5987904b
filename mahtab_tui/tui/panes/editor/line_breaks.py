"""What Enter does in Python code: run it, or open a line, with its indentation."""

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
_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")

_WHOLE_CELL = re.compile(r"\s*%%")
_TIMED = re.compile(r"\s*%%time(?:it)?\b.*\n")
"""Behind these stands Python."""


def is_complete(source: str) -> bool:
    """Whether a cell can run as it stands: one that is wrong is complete, so that its error is shown. ``!command``, ``%magic`` and
    ``object?`` count as the calls that the kernel makes of them.

    A text whose last statement is a block stays open until an empty line ends it, as at Python's and IPython's prompts;
    so does a ``%%magic``, to which the lines below it belong.
    """
    if _WHOLE_CELL.match(source) and not _TIMED.match(source):
        return "\n" in source.strip() and not source.rpartition("\n")[2].strip()
    # The kernel's Python may be newer than this one, which need not know type parameters.
    readable = _TYPE_PARAMETERS.sub(r"\1", transform(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = compile(readable, "<input>", "exec", _FLAGS, dont_inherit=True)
    except SyntaxError as error:
        return "incomplete input" not in str(error)
    except (ValueError, RecursionError, MemoryError, SystemError):  # a NUL; more nesting than Python can read; another thread parses, too (3.11)
        return True
    open_block = bool(tree.body) and (hasattr(tree.body[-1], "body") or hasattr(tree.body[-1], "cases"))
    return not (open_block and source.rpartition("\n")[2].strip())


def next_indent(before: str) -> str:
    """What a line after this text (all of it, up to the cursor) begins with."""
    start = before.rfind("\n") + 1
    # What was begun in an earlier line and ends in this one belongs to that line.
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
