"""The tool `rlm`, which searches a text too long to read. The host runs the search and gets the text in a file."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .host import Host
from .readable import readable
from .stdlib import late_import


def rlm(
    query: str,
    context: Any,
    *,
    model: str | None = None,
    sub_model: str | None = None,
    max_depth: int | None = None,
    max_turns: int | None = None,
    max_calls: int | None = None,
    max_usd: float | None = None,
    max_seconds: float | None = None,
    max_answer: int | None = None,
    max_tokens: int | None = None,
    turn_seconds: float | None = None,
    small: int | None = None,
    ask_above: int | None = None,
    concurrency: int | None = None,
    yes: bool = False,
    raw: bool = False,
) -> str:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox, and calls itself on parts.

    context: a str, bytes, a path object (file or folder), a list of texts or documents, a dict of them, or a DataFrame.
    model, sub_model: names of the models for the whole and for the parts; by default the session's and the configured one.
    max_depth (3), max_turns (20): how deep it calls itself, and how often one call may run code.
    max_calls (200), max_usd (US dollars), max_seconds: limits of the whole search; when one is reached, the best answer so far is returned.
    max_answer (1,000,000): how many characters the answer may have.
    max_tokens: read and written by all calls together. turn_seconds (30): how long the code of one turn may run, without its sub-calls.
    small (20,000): texts of at most so many characters are given to the model whole. ask_above (50): sub-calls that are not asked about.
    concurrency: model calls at a time. yes: allow any number of sub-calls without asking.
    raw: return the answer as the model wrote it, with escape sequences that could drive a terminal.
    The pane "recursion" shows the search; Escape stops it. Raises RuntimeError if there is no answer.
    Example: from pathlib import Path; print(rlm("Which requests timed out, and why?", Path("server.log"))).
    """
    given = {
        "model": model,
        "sub_model": sub_model,
        "max_depth": max_depth,
        "max_turns": max_turns,
        "max_calls": max_calls,
        "max_usd": max_usd,
        "max_seconds": max_seconds,
        "max_answer": max_answer,
        "max_tokens": max_tokens,
        "turn_seconds": turn_seconds,
        "small": small,
        "ask_above": ask_above,
        "concurrency": concurrency,
    }
    contexts = late_import(f"{__package__}.contexts")
    try:
        taken = contexts.take(context)
    except contexts.ContextError as error:
        raise RuntimeError(str(error)) from None
    for notice in taken.notices:
        print(notice)
    file = _written(taken.text)
    try:
        answer = Host.call(
            "rlm",
            {
                "query": str(query),
                "file": file,
                "kind": taken.kind,
                "parts": taken.parts,
                "about": taken.about,
                "options": {name: value for name, value in given.items() if value is not None},
                "yes": bool(yes),
                "raw": bool(raw),
            },
        )
        return readable(str(answer), "markdown")
    finally:
        with contextlib.suppress(FileNotFoundError):  # the host has read it
            os.unlink(file)


def _written(text: str) -> str:
    """Write a text to a new private file and return its path. A frame with a hundred megabytes would be slower."""
    descriptor, path = late_import("tempfile").mkstemp(prefix="mahtab-", suffix=".txt")
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    return str(path)
