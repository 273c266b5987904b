"""The names that code in a sandbox finds: its text, the functions for it (`functions.py`), and the
caller's functions (`caller_tools.py`)."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from typing import Any, NamedTuple

# Pickles of earlier versions name this error here.
from .caller_tools import NotPlainError as NotPlainError
from .caller_tools import tool_function
from .engine import EngineHost
from .function_calls import as_function
from .functions import ALL_FUNCTIONS, MAX_ANSWER_CHARS, SandboxFunctions
from .pieces import Source


class SandboxText(NamedTuple):
    """The text of a search, as its sandbox gets it."""

    text: str
    """All of it."""
    kind: str = "str"
    """What `context` is: a "str", or a "list" or "dict" of documents."""
    parts: Sequence[tuple[str, int, int]] = ()
    """The key, the start and the end (in characters) of each document."""
    contexts: Sequence[Any] = ()
    """The fields of each `rlm.contexts.NamedContext`, if there are several. Then `context` is a dict by
    their names."""


def make_names(
    text: SandboxText,
    host: EngineHost,
    max_answer_chars: int = MAX_ANSWER_CHARS,
    tools: Sequence[tuple[str, str, str]] = (),
) -> dict[str, object]:
    """Create the names for a text.

    Args:
        text: What `context` and the functions are about.
        host: Answers the calls.
        max_answer_chars: Maximum characters of FINAL.
        tools: The fields of each `DescribedTool`.
    """
    functions = SandboxFunctions(
        text.text, host, numbered=text.kind == "str", max_answer_chars=max_answer_chars
    )
    names = {name: as_function(getattr(functions, name)) for name in ALL_FUNCTIONS}
    tool_functions = {tool[0]: tool_function(host, *tool) for tool in tools}
    return {**names, **_context_names(text, functions), **tool_functions}


def _context_names(text: SandboxText, functions: SandboxFunctions) -> dict[str, object]:
    """Return `context`, and the single contexts by their names."""
    if text.kind == "str":
        source = text.text if isinstance(text.text, Source) else Source(text.text)
        return {"context": source}

    documents = functions.documents(text.kind, text.parts)
    names = {"context": documents}
    for name, kind, _start, _end, parts, _about in text.contexts:
        names[name] = documents[name] if kind == "str" else functions.documents(kind, parts)
    return names


def name_problem(name: str) -> str:
    """Return why a variable of a sandbox cannot have this name, as a clause; empty if it can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "it is not a name in Python"
    if not name.isascii() or len(name) > 50:
        return "a name has at most 50 letters, without accents"
    if name.startswith("_"):
        return "it begins with an underscore"
    if name in ALL_FUNCTIONS or name in ("context", "Part"):
        return "a search has that name already"
    if hasattr(builtins, name):
        return "Python has that name already"
    return ""
