"""The code in a model's answer, and answers in words."""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass

from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.fences import fences
from mahtab_tui.search.prompts import CUT_OFF_ANSWER, EMPTY_ANSWER, NO_CODE

_MAX_BARE_CODE_CHARS = 100_000
"""A longer answer without fences is not tried as code."""
_ALSO_PYTHON = frozenset(("repl",))
"""Languages that models write on fences if they were trained with other search programs."""
_UNNAMED_LANGUAGES = frozenset(("", "ipython", "code"))
"""Languages on fences that do not say whether the block is Python for the sandbox."""
_FINAL_CALL = re.compile(r"""\b(?:FINAL|FINAL_VAR|SUBMIT)\(|\banswer\[["']ready["']\]""")
"""How code gives the answer."""
_PARSE_ERRORS = (SyntaxError, ValueError, TypeError, IndexError, RecursionError, MemoryError)
"""Errors of parsing code, or of evaluating a literal in it."""


@dataclass(frozen=True, slots=True)
class AnswerCode:
    """The code in a model's answer, or the feedback for an answer without code."""

    code: str | None
    """None if there is none to run."""
    cut: bool = False
    """Whether text after the code was dropped: an output that the model could only imagine."""
    feedback: str = ""
    """A message for the model; empty if there is code."""
    literal_answer: str = ""
    """The value of a block that is only a literal: an answer rather than code."""


def extract_code(answer: str, *, ended: bool = True) -> AnswerCode:
    """Return the first block of Python in an answer, or all of it if it is bare Python.

    Args:
        answer: A model's whole answer.
        ended: Whether the model ended it. If not, a block without an end is not run.
    """
    if not answer.strip():
        return AnswerCode(None, feedback=EMPTY_ANSWER)

    response = parse_response(answer, has_ended=ended, python_names=_ALSO_PYTHON)
    for index, part in enumerate(response.parts):
        if part.kind == "code":
            if part.is_closed or ended:
                is_last = index == len(response.parts) - 1
                return AnswerCode(part.text, cut=not is_last)
            return AnswerCode(None, feedback=CUT_OFF_ANSWER)

    # Without a block that names Python, the code may stand in another one, or without fences.
    unnamed_block = _extract_unnamed_block(response.prose)
    if unnamed_block is not None:
        return unnamed_block
    if not ended:
        return AnswerCode(None, feedback=CUT_OFF_ANSWER)

    bare_text = response.prose.strip()
    if _is_code(bare_text):
        return AnswerCode(bare_text)
    return AnswerCode(None, feedback=NO_CODE)


def last_answer(answer: str) -> tuple[str, str | None]:
    """Return what a last answer says.

    Args:
        answer: The model's whole answer to the request for a last answer.

    Returns:
        Its words, and the code in it that gives the answer; None if there is no such code, or the
        words contain its value already.
    """
    code = extract_code(answer).code
    if code is None or not _FINAL_CALL.search(code):
        return answer.strip(), None

    # FINAL("…") needs no sandbox: its argument is the answer.
    with suppress(*_PARSE_ERRORS):
        statement = _parse(code).body[-1]
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("FINAL", "SUBMIT"):
            (argument,) = call.args
            return str(ast.literal_eval(argument)), None

    # Code from an unnamed block, or without fences, is part of the prose.
    prose = parse_response(answer, python_names=_ALSO_PYTHON).prose.strip()
    words = "" if code in prose else prose
    return words, code


def _extract_unnamed_block(answer: str) -> AnswerCode | None:
    """Return the first block whose language is unnamed, if it is closed and is Python."""
    answer = answer.replace("\r\n", "\n")
    for fence in fences(answer):
        if fence.info.lower() in _UNNAMED_LANGUAGES:
            break
    else:
        return None

    if not fence.closed or not _is_code(fence.code):
        return None
    following_lines = answer.split("\n")[fence.end :]
    return AnswerCode(fence.code.rstrip(), cut=any(line.strip() for line in following_lines))


def _is_code(text: str) -> bool:
    """Return whether a text is Python that does something.

    Short sentences may be valid Python too: "Hello", "not found", "Answer: yes".
    """
    if len(text) > _MAX_BARE_CODE_CHARS:
        return False
    with suppress(*_PARSE_ERRORS):
        return any(map(_does_something, _parse(text).body))
    return False


def _does_something(statement: ast.stmt) -> bool:
    """Return whether a statement has an effect or a result that is not yet in its text."""
    # These are also words of sentences: only a call, an assignment or an await makes them code.
    if isinstance(statement, ast.Expr | ast.Return | ast.Assert | ast.Delete | ast.Raise):
        active_nodes = ast.Call | ast.NamedExpr | ast.Await
        return any(isinstance(node, active_nodes) for node in ast.walk(statement))
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(
        statement, ast.Pass | ast.Break | ast.Continue | ast.Global | ast.Nonlocal
    )


def _parse(code: str) -> ast.Module:
    with warnings.catch_warnings():
        # Warnings about escapes in strings would go to stderr.
        warnings.simplefilter("ignore")
        return ast.parse(code)


def literal_as_words(extracted: AnswerCode) -> AnswerCode:
    """Turn code that is only a literal, such as ``"Paris"``, into an answer in words.

    Other code stays.
    """
    with suppress(*_PARSE_ERRORS):
        words = str(ast.literal_eval(extracted.code or ""))
        return AnswerCode(None, feedback=NO_CODE, literal_answer=words)
    return extracted


def drop_imagined_output(answer: str, extracted: AnswerCode) -> str:
    """Return an answer up to the end of its code, if text after it was dropped."""
    if extracted.code is None or not extracted.cut:
        return answer
    beginning, code, _ = answer.partition(extracted.code)
    if not code:  # the code was changed when it was read, for example its line breaks
        beginning = "```python\n"
    return f"{beginning}{extracted.code}\n```"
