"""Describes the variables that a question is about to the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Change, Variable
from mahtab_tui.llm.prompts import describe_variables, escape_section, join_variables
from mahtab_tui.session.private_names import PrivateNames

ROOM = 4_500
"""Characters of all descriptions: about 1,500 tokens."""

_MOST = 12
"""Variables that are described at most."""
_MOST_CHANGED = 8
"""Most variables of a cell that are described."""
_MADE_CHANGES = ("added", "rebound", "changed")
_LEAST = 200
"""A description is not begun in fewer characters."""
_WORD = re.compile(r"\w+")
_WHOLE = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""Types of variables of which a line says everything, or may."""
_FRAMES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_PREFIXES = frozenset({"df"})
"""Parts of names that nobody says: ``df_cars``."""


def describe_for_model(
    kernel: Kernel,
    private: PrivateNames,
    question: str,
    recent_codes: Sequence[str],
    known: str = "",
) -> dict[str, str]:
    """Return a text for each variable as the model gets it: those that matter described, the others
    in a line each.

    recent_codes: the code of the last cells, the newest last. known: the conversation so far; what
    stands in it is not described again. Nothing private is described, nor what cells have used
    together with it. Raises `KernelError`.
    """
    variables = private.variables()
    described = _describe(
        kernel,
        private,
        variables,
        choose_described(variables, question, recent_codes)[:_MOST],
        ROOM // 2,
    )
    return describe_variables(
        variables,
        _fit({name: text for name, text in described.items() if escape_section(text) not in known}),
    )


def describe_changes(
    kernel: Kernel, private: PrivateNames, changes: Sequence[Change], *, printed: bool
) -> str:
    """Return the variables that a cell has made or changed: a line each if it has printed
    something, otherwise described.

    Raises `KernelError`.
    """
    changed = [
        private.redact_variable(each.variable)
        for each in changes
        if each.variable is not None and each.change in _MADE_CHANGES
    ]
    changed = [each for each in changed if not each.underscored and each.kind == "data"][
        :_MOST_CHANGED
    ]
    names = [] if printed else [each.name for each in changed if not _is_whole(each)]
    described = _describe(kernel, private, changed, names, ROOM // 3) if names else {}
    return join_variables(describe_variables(changed, described))


def _describe(
    kernel: Kernel,
    private: PrivateNames,
    variables: Sequence[Variable],
    names: Sequence[str],
    limit: int,
) -> dict[str, str]:
    names = private.unrelated(names, [v.name for v in variables if v.kind == "data"])
    try:
        described = kernel.describe(names, limit) if names else {}
    except KernelError:
        return {}
    return {name: described[name] for name in names if name in described}


def choose_described(
    variables: Sequence[Variable], question: str, recent_codes: Sequence[str]
) -> list[str]:
    """Return the names that are worth a description, the most important first: those in the
    question, those in recent code, tables."""
    from mahtab_tui.worker.private_use import mentioned_names

    newest = [v for v in reversed(variables) if not v.underscored and not _is_whole(v)]
    names = sorted(newest, key=lambda v: v.kind != "data")
    chosen = dict.fromkeys(_in_question([v.name for v in names], question))
    for code in reversed(recent_codes):
        found = mentioned_names(code)
        chosen.update(dict.fromkeys(v.name for v in names if v.name in found))
    chosen.update(dict.fromkeys(v.name for v in names if v.type in _FRAMES))
    return list(chosen)


def _is_whole(variable: Variable) -> bool:
    """Return whether the line of a variable tells all that a description would."""
    return (
        variable.kind == "module"
        or variable.type in _WHOLE
        or (variable.type == "str" and variable.summary.startswith("'"))
    )


def _in_question(names: Sequence[str], question: str) -> Iterator[str]:
    """Yield the names that a question mentions, those that it mentions first before others."""
    words = [word for word in _WORD.findall(question) if word not in ("a", "I")]
    positions: dict[str, int] = {}
    for position, word in enumerate(words):
        for form in _singular_forms(word.lower()):
            positions.setdefault(form, position)
    exact = set(words)
    found = {}
    for name in names:
        if len(name) == 1:
            parts = [] if name not in exact else [name.lower()]
        else:
            parts = (
                [name.lower()]
                if _singular_forms(name.lower()) & positions.keys()
                else _split_name(name)
            )
        at = [
            min(
                (positions[form] for form in _singular_forms(part) if form in positions), default=-1
            )
            for part in parts
        ]
        if at and min(at) >= 0:
            found[name] = min(at)
    yield from sorted(found, key=found.__getitem__)


def _split_name(name: str) -> list[str]:
    """Return the words of a name such as ``car_prices``."""
    parts = [part for part in name.lower().split("_") if part and part not in _PREFIXES]
    return parts if all(len(part) > 1 for part in parts) else []


def _singular_forms(word: str) -> set[str]:
    """Return a word and what it may be the plural of."""
    forms = {word}
    if len(word) > 3 and word.endswith("s"):
        forms.add(word[:-1])
        if word.endswith("es"):
            forms.add(word[:-2])
        if word.endswith("ies"):
            forms.add(f"{word[:-3]}y")
    return forms


def _fit(described: dict[str, str]) -> dict[str, str]:
    """Return as many descriptions as there is room for; the last one may be cut after a line."""
    room = ROOM
    fitted: dict[str, str] = {}
    for name, text in described.items():
        if len(text) > room:
            if room < _LEAST:
                break
            text = (
                f"{text[: text.rindex(chr(10), 0, room - 4)]}\n..."
                if "\n" in text[: room - 4]
                else ""
            )
        if text:
            fitted[name] = text
            room -= len(text) + 2
    return fitted
