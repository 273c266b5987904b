"""Finds the code in a model's answer: the first block, and nothing after it."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from mahtab_tui.bus.fences import fences
from mahtab_tui.bus.parser import parse_response
from mahtab_tui.search.prompts import CUT_OFF_ANSWER, EMPTY_ANSWER, NO_CODE

_BARE_LIMIT = 100_000
"""Longer answers without a block are not tried as Python."""

_ALSO_PYTHON = frozenset(("repl",))
"""Languages on a fence that models write which were trained with other programs for searches."""
_UNNAMED = frozenset(("", "ipython", "code"))
"""Other names on a fence, around what may be Python."""
_FINAL = ("FINAL", "FINAL_VAR", "SUBMIT")


@dataclass(frozen=True, slots=True)
class AnswerCode:
    """The code of a model's answer, or the reply to an answer without code."""

    code: str | None
    """The code to run; None if there is none."""
    cut: bool = False
    """Whether text after the code was dropped. It was written before the code ran, so the model
    could only imagine the output."""
    feedback: str = ""
    """Message to the model if there is no code."""


def code_of(answer: str, *, ended: bool = True) -> AnswerCode:
    """Return the first block of Python in an answer, or all of it if it is bare Python.

    ended: whether the model ended its answer itself; if not, a block without an end is not run.
    """
    if not answer.strip():
        return AnswerCode(None, feedback=EMPTY_ANSWER)
    parsed = parse_response(answer, ended=ended, also=_ALSO_PYTHON)
    parts, answer = parsed.parts, parsed.spoken
    for number, part in enumerate(parts):
        if part.kind == "code":
            if part.closed or ended:
                return AnswerCode(part.text, cut=number + 1 < len(parts))
            return AnswerCode(None, feedback=CUT_OFF_ANSWER)
    return (
        _unnamed(answer)
        or _bare(answer, ended)
        or AnswerCode(None, feedback=NO_CODE if ended else CUT_OFF_ANSWER)
    )


def last_answer(answer: str) -> str:
    """Return an answer that should have no code; if it calls FINAL with a plain string all the
    same, return that string."""
    found = code_of(answer)
    if found.code is None:
        return answer.strip()
    try:
        statements = _parse(found.code).body
        call = statements[-1].value if statements and isinstance(statements[-1], ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in _FINAL
            and len(call.args) == 1
        ):
            return str(ast.literal_eval(call.args[0]))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return answer.strip()


def _unnamed(answer: str) -> AnswerCode | None:
    """Return the first block whose fence names no language, if it is Python."""
    text = answer.replace("\r\n", "\n")
    fence = next((fence for fence in fences(text) if fence.info.lower() in _UNNAMED), None)
    if fence is None or not fence.closed or not _is_code(fence.code):
        return None
    rest = text.split("\n")[fence.end :]
    return AnswerCode(fence.code.rstrip(), cut=any(line.strip() for line in rest))


def _bare(answer: str, ended: bool) -> AnswerCode | None:
    return AnswerCode(answer.strip()) if ended and _is_code(answer.strip()) else None


def _is_code(text: str) -> bool:
    """Tell whether a text is Python that does something. Short sentences may be valid Python too:
    "Hello", "not found", "Answer: yes"."""
    if len(text) > _BARE_LIMIT:
        return False
    try:
        tree = _parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_does_something(statement) for statement in tree.body)


def _does_something(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr | ast.Return | ast.Assert | ast.Delete | ast.Raise):
        return any(
            isinstance(node, ast.Call | ast.NamedExpr | ast.Await) for node in ast.walk(statement)
        )
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(
        statement, ast.Pass | ast.Break | ast.Continue | ast.Global | ast.Nonlocal
    )


def _parse(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about escapes in strings would go to stderr
        return ast.parse(code)
