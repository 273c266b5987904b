"""Describes the variables that a question concerns to the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Change, Variable
from mahtab_tui.llm.prompts import describe_variables, escape_section, join_variables
from mahtab_tui.session.private_names import PrivateNames

ROOM = 4_500
"""Maximum characters of all descriptions, about 1,500 tokens."""

_MOST = 12
"""Maximum number of described variables."""
_MOST_CHANGED = 8
"""Maximum number of described variables of a cell."""
_MADE_CHANGES = ("added", "rebound", "changed")
_LEAST = 200
"""Minimum characters to start a description."""
_WORD = re.compile(r"\w+")
_WHOLE = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""Types that a single line describes completely, or as far as allowed."""
_FRAMES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_PREFIXES = frozenset({"df"})
"""Parts of names that nobody says, as in ``df_cars``."""


def describe_for_model(
    kernel: Kernel,
    private: PrivateNames,
    question: str,
    recent_codes: Sequence[str],
    known: str = "",
) -> dict[str, str]:
    """Return the text that the model gets for each variable: relevant ones are described in detail,
    others in one line.

    recent_codes: the code of the last cells, newest last. known: the conversation so far, so that
    nothing in it is described again. Private variables, and those that cells have used together
    with them, are not described in detail. Raises `KernelError`.
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
    """Return the variables that a cell made or changed: one line each if it printed something,
    otherwise described in detail.

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
    """Return the names worth describing in detail, most important first: those in the question,
    those in recent code, tables."""
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
    """Return whether a variable's line says everything that a detailed description would."""
    return (
        variable.kind == "module"
        or variable.type in _WHOLE
        or (variable.type == "str" and variable.summary.startswith("'"))
    )


def _in_question(names: Sequence[str], question: str) -> Iterator[str]:
    """Yield the names mentioned by a question, in the order of their mentions."""
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
    """Split a name such as ``car_prices`` into words."""
    parts = [part for part in name.lower().split("_") if part and part not in _PREFIXES]
    return parts if all(len(part) > 1 for part in parts) else []


def _singular_forms(word: str) -> set[str]:
    """Return a word, and the words it may be the plural of."""
    forms = {word}
    if len(word) > 3 and word.endswith("s"):
        forms.add(word[:-1])
        if word.endswith("es"):
            forms.add(word[:-2])
        if word.endswith("ies"):
            forms.add(f"{word[:-3]}y")
    return forms


def _fit(described: dict[str, str]) -> dict[str, str]:
    """Return as many descriptions as fit; the last one may be truncated after a line."""
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
