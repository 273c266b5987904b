"""Chooses what the model is told of variables: those that a question names, what the user made, and
what a block of code changed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from mahtab_tui.bus.records import Namespace, Private, Record, Undo, get_record
from mahtab_tui.kernel.base import Change, Kernel, KernelError, Variable
from mahtab_tui.llm.prompts import (
    CHANGED,
    MAYBE_CHANGED,
    USERS,
    describe_variables,
    escape_section,
    join_variables,
    list_changes,
    marked,
)
from mahtab_tui.session.variables import PrivateNames
from mahtab_tui.worker.private_use import mentioned_names

ROOM = 4_500
"""Maximum characters of all descriptions, about 1,500 tokens."""

_MAX_DESCRIBED = 12
_MAX_CHANGED = 8
_LINE_LIMIT = 240
"""Characters of a table's line with its columns."""
_LINES_ROOM = 1_500
"""Characters of all these lines."""
_LEAST = 200
"""Minimum characters to start a description."""
_MARKS = {"rebound": CHANGED, "changed": CHANGED, "perhaps": MAYBE_CHANGED}
_WORD = re.compile(r"\w+")
_WHOLE = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""Types that a single line describes completely."""
_FRAMES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_PREFIXES = frozenset({"df"})
"""Parts of names that nobody says, as in ``df_cars``."""


class _Sent(NamedTuple):
    text: str
    """The description of a variable."""
    message: str
    """What the model got of it."""


class VariableDescriptions(logging.Handler):
    """Describes variables for the model, without repeating what it was last told of one. Private
    variables, and those used with them, get no details."""

    def __init__(
        self,
        kernel: Kernel,
        private: PrivateNames,
        is_users: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """is_users: whether the user made a variable, by its name."""
        super().__init__()
        self._kernel = kernel
        self._private = private
        self._is_users = is_users
        self._sent: dict[str, _Sent] = {}
        """The newest description of each variable that the model got."""

    def emit(self, record: logging.LogRecord) -> None:
        self._fold(get_record(record))

    def _fold(self, record: Record) -> None:
        """Forget what is no longer true, or what the model may take for outdated."""
        is_new_kernel = isinstance(record, Namespace) and record.fresh
        if is_new_kernel or isinstance(record, Undo | Private):
            self._sent.clear()

    def for_question(
        self, question: str, recent_codes: Sequence[str], conversation: str = ""
    ) -> dict[str, str]:
        """Return a text for each variable or group of them. conversation: what the model gets
        before the question. Raises `KernelError`."""
        variables = self._private.variables()
        users = frozenset(each.name for each in variables if self._is_users(each.name))
        names = choose_described(variables, question, recent_codes, users)[:_MAX_DESCRIBED]
        described = self._describe(variables, names, ROOM // 2, users)
        for name, text in list(described.items()):
            sent = self._sent.get(name)
            if sent and sent.text == text and sent.message in conversation:
                del described[name]
        new = _fit(described)
        self._sent |= {
            name: _Sent(described[name], escape_section(text)) for name, text in new.items()
        }
        lines = self._table_lines(variables, users - new.keys(), users)
        return describe_variables(variables, new | lines, users)

    def for_changes(self, changes: Sequence[Change], *, printed: bool) -> str:
        """Return what a cell changed: a line for each variable if it printed something, otherwise
        with details. Raises `KernelError`."""
        changes = [each for each in changes if not each.name.startswith("_")]
        deleted = [each.name for each in changes if each.change == "deleted"]
        kinds: dict[str, Change] = {}
        variables: list[Variable] = []
        for change in changes:
            if change.variable is not None and change.variable.kind != "module":
                variables.append(self._private.redact_variable(change.variable))
                kinds[change.name] = change
        users = frozenset(filter(self._is_users, kinds))
        # What the user made is named first, because that matters most.
        variables.sort(key=lambda each: (each.name not in users, each.kind != "data"))
        visible = variables[:_MAX_CHANGED]
        names = [each.name for each in visible if each.kind == "data" and not _is_whole(each)]
        described = {} if printed else self._describe(visible, names, ROOM // 3, users)
        marks = {name: _MARKS.get(change.change, "") for name, change in kinds.items()}
        texts = describe_variables(visible, described, users, marks, are_grouped=False)
        self._sent |= {
            name: _Sent(text, texts[name]) for name, text in described.items() if name in texts
        }
        return list_changes(
            join_variables(texts), [each.name for each in variables[_MAX_CHANGED:]], deleted
        )

    def _describe(
        self, variables: Sequence[Variable], names: Sequence[str], limit: int, users: Set[str]
    ) -> dict[str, str]:
        data = [variable.name for variable in variables if variable.kind == "data"]
        names = self._private.unrelated(names, data)
        try:
            described = self._kernel.describe(names, limit) if names else {}
        except KernelError:
            return {}
        return {
            name: marked(described[name], USERS if name in users else "")
            for name in names
            if name in described
        }

    def _table_lines(
        self, variables: Sequence[Variable], names: Set[str], users: Set[str]
    ) -> dict[str, str]:
        """Describe tables in a line with their columns."""
        newest = reversed(variables)
        tables = [each.name for each in newest if each.name in names and each.type in _FRAMES]
        lines: dict[str, str] = {}
        remaining_chars = _LINES_ROOM
        for name, line in self._describe(variables, tables, _LINE_LIMIT, users).items():
            remaining_chars -= len(line)
            if remaining_chars < 0:
                break
            lines[name] = line
        return lines


def choose_described(
    variables: Sequence[Variable],
    question: str,
    recent_codes: Sequence[str],
    users: Set[str] | None = None,
) -> list[str]:
    """Return the names worth details: those in the question, what the user made if recent code
    (newest last) mentions it, the user's tables, and other tables in recent code. users: names of
    what the user made; None for all."""
    newest = [v for v in reversed(variables) if not v.underscored and not _is_whole(v)]
    newest.sort(key=lambda v: v.kind != "data")
    chosen = _in_question([v.name for v in newest], question)
    theirs = [v for v in newest if users is None or v.name in users]
    mentioned = [mentioned_names(code) for code in reversed(recent_codes)]
    for words in mentioned:
        chosen += [v.name for v in theirs if v.name in words]
    chosen += [v.name for v in theirs if v.type in _FRAMES]
    for words in mentioned:
        chosen += [v.name for v in newest if v.name in words and v.type in _FRAMES]
    return list(dict.fromkeys(chosen))


def _is_whole(variable: Variable) -> bool:
    return (
        variable.kind == "module"
        or variable.type in _WHOLE
        or (variable.type == "str" and variable.summary.startswith("'"))
    )


def _in_question(names: Sequence[str], question: str) -> list[str]:
    """Return the names mentioned by a question, in order."""
    words = [word for word in _WORD.findall(question) if word not in ("a", "I")]
    positions: dict[str, int] = {}
    for position, word in enumerate(words):
        for form in _singular_forms(word.lower()):
            positions.setdefault(form, position)
    exact = set(words)
    found = {}
    for name in names:
        if len(name) == 1:
            parts = [name.lower()] if name in exact else []
        elif _singular_forms(name.lower()) & positions.keys():
            parts = [name.lower()]
        else:
            parts = _split_name(name)
        forms = [_singular_forms(part) & positions.keys() for part in parts]
        if forms and all(forms):
            found[name] = min(positions[form] for each in forms for form in each)
    return sorted(found, key=found.__getitem__)


def _split_name(name: str) -> list[str]:
    parts = [part for part in name.lower().split("_") if part and part not in _PREFIXES]
    return parts if all(len(part) > 1 for part in parts) else []


def _singular_forms(word: str) -> set[str]:
    forms = {word}
    if len(word) > 3:
        for ending, singular in (("s", ""), ("es", ""), ("ies", "y")):
            if word.endswith(ending):
                forms.add(word.removesuffix(ending) + singular)
    return forms


def _fit(described: dict[str, str]) -> dict[str, str]:
    room = ROOM
    fitted: dict[str, str] = {}
    for name, text in described.items():
        if len(text) > room:
            if room < _LEAST:
                break
            head = text[: room - 4]
            text = f"{head.rpartition(chr(10))[0]}\n..." if "\n" in head else ""
        if text:
            fitted[name] = text
            room -= len(text) + 2
    return fitted
