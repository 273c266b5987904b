"""Chooses the variables that the model gets details about, for a question and after a cell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from mahtab_tui.bus.values import Variable
from mahtab_tui.session.passing_names import PassingNames
from mahtab_tui.worker.guard.mentioned_names import mentioned_names

TABLE_TYPES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})

_MAX_CHANGED = 8
"""At most this many changed variables are described; the others are only named."""
_LAST_LINES = 3
"""The variables that matter most after a cell are those in this many lines at the end of its code."""
_MIN_PRINTED_CHARS = 3
"""A shorter value may stand in an output by chance."""
_MAX_SEARCHED_CHARS = 20_000
"""Values are looked for in this many characters at the beginning of an output."""
_PRINTED_TYPES = frozenset({"int", "float", "int64", "float64"})
"""Variables of these types are not described if the output has their value."""
_ONE_LINE_TYPES = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""A single line describes a variable of one of these types completely."""
_UNSAID_NAME_PARTS = frozenset({"df"})
"""Parts of names that nobody says, as in ``df_cars``."""
_WORDS_NOT_NAMES = frozenset({"a", "I"})
"""Words of English that are not taken for variables with these names."""
_WORD = re.compile(r"\w+")


def choose_for_question(
    variables: Sequence[Variable],
    question: str,
    recent_codes: Sequence[str],
    users_names: Set[str] | None = None,
) -> list[str]:
    """Return the names of the variables that are worth details, the most important first.

    First come the variables that the question names, then the user's variables in recent code, then
    the user's other tables, and then the other tables in recent code.

    Args:
        variables: All variables, the newest last.
        question: What the user asks.
        recent_codes: The code of the last cells, the newest last.
        users_names: The names of the variables that the user made; None if the user made them all.
    """
    candidates = [
        variable
        for variable in reversed(variables)
        if not variable.underscored and not fits_line(variable)
    ]
    candidates.sort(key=lambda variable: variable.kind != "data")
    users_candidates = [
        variable for variable in candidates if users_names is None or variable.name in users_names
    ]
    recent_names = [mentioned_names(code) for code in reversed(recent_codes)]

    chosen = names_in_question([variable.name for variable in candidates], question)
    for names in recent_names:
        chosen += [variable.name for variable in users_candidates if variable.name in names]
    chosen += [variable.name for variable in users_candidates if variable.type in TABLE_TYPES]
    tables = [variable.name for variable in candidates if variable.type in TABLE_TYPES]
    for names in recent_names:
        chosen += [table for table in tables if table in names]
    return list(dict.fromkeys(chosen))


def choose_changed(
    variables: Sequence[Variable], users_names: Set[str], code: str
) -> list[Variable]:
    """Return the changed variables to describe, in their order.

    If they are too many, the variables of the user are chosen first, then data, then what the last
    lines of the code mention, and of equally important ones the last.

    Args:
        variables: The variables that a cell has changed.
        users_names: The names of the variables that the user made.
        code: The code of the cell.
    """
    if len(variables) <= _MAX_CHANGED:
        return list(variables)
    last_lines = code.rstrip().split("\n")[-_LAST_LINES:]
    last_names = mentioned_names("\n".join(last_lines))

    def unimportance(variable: Variable) -> tuple[bool, bool, bool]:
        name = variable.name
        return name not in users_names, variable.kind != "data", name not in last_names

    # Sorting keeps the order of equally important variables, so the last ones come first.
    important_first = list(reversed(variables))
    important_first.sort(key=unimportance)
    chosen_names = {variable.name for variable in important_first[:_MAX_CHANGED]}
    return [variable for variable in variables if variable.name in chosen_names]


def is_passing(variable: Variable, passing_names: PassingNames) -> bool:
    """Return whether a cell has bound a variable only in passing.

    An imported name counts only if it is not data, because the model should know of imported data.
    """
    if variable.name in passing_names.transient:
        return True
    return variable.name in passing_names.imported and variable.kind != "data"


def is_printed(variable: Variable, output: str) -> bool:
    """Return whether an output has the value of a numeric variable, not as a part of another number."""
    value = variable.summary
    if variable.kind != "data" or len(value) < _MIN_PRINTED_CHARS:
        return False
    if variable.type not in _PRINTED_TYPES:
        return False
    whole_value = rf"(?<![\w.]){re.escape(value)}(?!\.?\w)"
    return re.search(whole_value, output[:_MAX_SEARCHED_CHARS]) is not None


def fits_line(variable: Variable) -> bool:
    """Return whether the type and the summary of a variable say all about it."""
    if variable.kind == "module" or variable.type in _ONE_LINE_TYPES:
        return True
    # The summary of a short text is the text in quotes.
    return variable.type == "str" and variable.summary.startswith("'")


def names_in_question(names: Sequence[str], question: str) -> list[str]:
    """Return the names that a question mentions, in the order in which it mentions them.

    A question mentions a name if it has the name or all words of it, in any case, and in the
    singular or the plural. A name of one letter must stand in it as it is.
    """
    words = [word for word in _WORD.findall(question) if word not in _WORDS_NOT_NAMES]
    exact_words = set(words)
    positions: dict[str, int] = {}
    """Where each word of the question comes first, by its singular and plural forms."""
    for position, word in enumerate(words):
        for form in _singular_forms(word.lower()):
            positions.setdefault(form, position)

    position_by_name: dict[str, int] = {}
    for name in names:
        if len(name) > 1 or name in exact_words:
            name_position = _position_of_name(name, positions)
            if name_position is not None:
                position_by_name[name] = name_position
    return sorted(position_by_name, key=position_by_name.__getitem__)


def _position_of_name(name: str, positions: Mapping[str, int]) -> int | None:
    """Return where a question mentions a name first; None if it does not.

    Args:
        name: The name.
        positions: Where each word of the question comes first, by the forms of the word.
    """
    # The whole name counts first, then all of its words together.
    parts_of_name = [name.lower()]
    if len(name) > 1 and _position_of_word(name.lower(), positions) is None:
        parts_of_name = _split_name(name)
    part_positions: list[int] = []
    for part in parts_of_name:
        part_position = _position_of_word(part, positions)
        if part_position is None:
            return None
        part_positions.append(part_position)
    return min(part_positions, default=None)


def _position_of_word(word: str, positions: Mapping[str, int]) -> int | None:
    """Return where a question has a word first, in the singular or the plural; None if it has not."""
    return min(
        (positions[form] for form in _singular_forms(word) if form in positions), default=None
    )


def _split_name(name: str) -> list[str]:
    """Return the words of a name that a question must say to mention it.

    A name with a part of a single letter has none, because such a letter may mean anything.
    """
    parts = [part for part in name.lower().split("_") if part and part not in _UNSAID_NAME_PARTS]
    if all(len(part) > 1 for part in parts):
        return parts
    return []


def _singular_forms(word: str) -> set[str]:
    """Return a word, and the words of which it may be the plural."""
    forms = {word}
    if len(word) > 3:
        for plural_ending, singular_ending in (("s", ""), ("es", ""), ("ies", "y")):
            if word.endswith(plural_ending):
                forms.add(word.removesuffix(plural_ending) + singular_ending)
    return forms
