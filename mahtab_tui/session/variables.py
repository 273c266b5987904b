"""Hides private variables from models and agents, and tracks which cells made a variable."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import (
    Namespace,
    Notice,
    Private,
    Record,
    ReplIn,
    Undo,
    cell_entry,
    emit,
    get_record,
)
from mahtab_tui.kernel.base import CellResult, Change, Kernel, KernelError, PrivateUse, Variable
from mahtab_tui.llm.prompts import describe_variables, escape_section, join_variables
from mahtab_tui.worker.private_use import mentioned_names, reaches_everything

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components


class VariableHistory(logging.Handler):
    """Tracks which cells changed which variables."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self.codes: dict[int, str] = {}
        self._changes: dict[int, dict[str, str]] = {}
        self._undone: set[int] = set()
        for record in past:
            self._fold(record)

    def emit(self, record: logging.LogRecord) -> None:
        self._fold(get_record(record))

    def _fold(self, record: Record) -> None:
        if isinstance(record, ReplIn) and record.cell is not None:
            self.codes[record.cell] = record.text
        elif isinstance(record, Undo):
            (self._undone.update if record.undone else self._undone.difference_update)(record.cells)
        elif isinstance(record, Namespace) and record.cell and not record.restored:
            self._changes.setdefault(record.cell, {}).update(
                (change.name, change.change) for change in record.changes
            )

    def code_for(self, name: str) -> str:
        """Return the cells that gave a variable its last value, as one cell."""
        cells: list[int] = []
        for cell in sorted(self._changes.keys() & self.codes.keys() - self._undone):
            change = self._changes[cell].get(name)
            if change in ("added", "rebound", "deleted"):
                cells.clear()
            if change not in (None, "deleted"):
                cells.append(cell)
        return "\n\n".join(f"# cell {cell}\n{self.codes[cell].rstrip()}" for cell in cells)


_MARKED = "{name} is private: models and agents know it exists, but not what it contains."
_MISSING = " There is no such variable yet."
_UNMARKED = "{name} is no longer private: models and agents may see what it contains."


class PrivateNames:
    """Marks names as private, and decides what may be sent. The mark belongs to a name, not an
    object, and remains if the name is deleted."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._kernel = parts.kernel
        self._secrets = parts.secrets
        self._hidden = parts.prompt.hidden
        self._aliases: frozenset[str] = frozenset()
        """Other names of the private objects."""
        self._codes = parts.variable_history.codes

    @property
    def names(self) -> list[str]:
        return sorted(self._hidden.private)

    def mark(self, name: str, private: bool) -> None:
        """Waits for the kernel."""
        if private == (name in self._hidden.private):
            return
        cells: tuple[int, ...] = ()
        text = _UNMARKED
        if private:
            codes = dict(self._codes)
            used = self._query_kernel([name], list(codes.values())).used
            cells = tuple(cell for cell, names in zip(codes, used, strict=False) if names)
            text, exists = _MARKED, False
            with suppress(KernelError):
                exists = any(variable.name == name for variable in self._kernel.variables())
            text += _MISSING * (not exists)
        emit(self._log, Private(name=name, private=private, cells=cells))
        if not private:
            self._secrets.private.replace(())
        self.refresh()
        emit(self._log, Notice(text.format(name=name)))

    def uses(self, code: str) -> tuple[str, ...]:
        """Return the private variables that code can reach, as far as that can be determined.
        Waits."""
        return self._query_kernel(self.names, [code]).used[0] if self.names else ()

    def refresh(self) -> None:
        """Ask the kernel what the private variables refer to. Waits."""
        names = self.names
        found = self._query_kernel(names, []) if names else PrivateUse((), (), ())
        self._aliases = frozenset(found.aliases)
        self._secrets.private.add(found.texts)

    def is_private(self, name: str) -> bool:
        return name in self._hidden.private or name in self._aliases

    def is_private_cell(self, cell: int) -> bool:
        """Return whether a cell's output is withheld."""
        return self._hidden.is_private(cell_entry(cell))

    def variables(self) -> list[Variable]:
        """List the variables as models and agents see them. Raises `KernelError`."""
        self.refresh()
        return [self.redact_variable(variable) for variable in self._kernel.variables()]

    def unrelated(self, names: Sequence[str], data: Iterable[str]) -> list[str]:
        """Return the variables that contain nothing private, and that no cell has used with a
        private one. data: variables through which values may have passed. Waits."""
        if not self.names:
            return list(names)
        data, related = frozenset(data), {*self.names, *self._aliases}
        for cell, code in list(self._codes.items()):
            words = mentioned_names(code)
            if self.is_private_cell(cell) or not related.isdisjoint(words):
                related.update(words.intersection(data))
        holding = self._query_kernel(self.names, names).used
        found = zip(names, holding, strict=True)
        return [name for name, private in found if not private and name not in related]

    def redact_result(self, result: CellResult) -> CellResult:
        redact = self.redact_variable
        changes = tuple(
            replace(
                change,
                variable=change.variable and redact(change.variable),
                before=change.before and redact(change.before),
            )
            for change in result.changes
        )
        result = replace(result, changes=changes)
        if not self.is_private_cell(result.cell):
            return result
        result = replace(result, output=PRIVATE_CELL, displays=(), frames=())
        return replace(result, kinds=(("stdout", len(PRIVATE_CELL)),))

    def redact_variable(self, variable: Variable) -> Variable:
        if self.is_private(variable.name):
            return replace(variable, type="private", summary="")
        return variable

    def _query_kernel(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """If the kernel does not answer, use only the names in the code."""
        try:
            return self._kernel.private_use(names, codes)
        except KernelError:
            used = tuple(
                tuple(names if reaches_everything(words) else words.intersection(names))
                for words in map(mentioned_names, codes)
            )
            return PrivateUse((), (), used)


def explain_approval(names: Sequence[str], party: str) -> str:
    return f"it uses {_join_names(names)}; {party} would see its output"


def explain_refusal(what: str, names: Sequence[str]) -> str:
    return f"{what} sends text to a model, and this cell uses {_join_names(names)}. private(name, False) makes a variable public."


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', …' * (len(names) > 5)}, which {'is' if len(names) == 1 else 'are'} private"


ROOM = 4_500
"""Maximum characters of all descriptions, about 1,500 tokens."""

_MOST = 12
_MOST_CHANGED = 8
_MADE_CHANGES = ("added", "rebound", "changed")
_LEAST = 200
"""Minimum characters to start a description."""
_WORD = re.compile(r"\w+")
_WHOLE = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""Types that a single line describes completely."""
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
    """Return the text that the model gets for each variable: details of the relevant ones, a line
    of others. known: the conversation so far. Private variables, and those used with them, get no
    details. Raises `KernelError`."""
    variables = private.variables()
    chosen = choose_described(variables, question, recent_codes)[:_MOST]
    described = _describe(kernel, private, variables, chosen, ROOM // 2)
    new = {name: text for name, text in described.items() if escape_section(text) not in known}
    return describe_variables(variables, _fit(new))


def describe_changes(
    kernel: Kernel, private: PrivateNames, changes: Sequence[Change], *, printed: bool
) -> str:
    """Return the variables that a cell made or changed: one line each if it printed something,
    otherwise with details. Raises `KernelError`."""
    changed = [
        private.redact_variable(each.variable)
        for each in changes
        if each.variable is not None and each.change in _MADE_CHANGES
    ]
    changed = [each for each in changed if not each.underscored and each.kind == "data"]
    changed = changed[:_MOST_CHANGED]
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
    """Return the names worth details: those in the question, those in recent code (newest last),
    tables."""
    newest = [v for v in reversed(variables) if not v.underscored and not _is_whole(v)]
    newest.sort(key=lambda v: v.kind != "data")
    chosen = _in_question([v.name for v in newest], question)
    for code in reversed(recent_codes):
        found = mentioned_names(code)
        chosen += [v.name for v in newest if v.name in found]
    chosen += [v.name for v in newest if v.type in _FRAMES]
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
