"""Finds the values of tables that a question names, perhaps in another form or spelling.

Without this, a small model compares with ``'Ford'`` where the table says ``'ford'``, and takes the
0 that it gets for the answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from ..values.objects import run_with_timeout
from ..values.secret_names import looks_secret
from ..values.summaries import variable_kind
from .table_description import text_columns

_TIMEOUT_S = 1.0
"""Seconds for all tables together."""
_MAX_QUESTION_CHARS = 4_000
"""The rest of a longer question is not read."""
_MAX_TEXTS = 20_000
"""Different texts of a column that are compared with the question."""
_MAX_TEXT_CHARS = 60
"""Longer texts are not names."""
_MAX_VALUES = 3
"""If a question names more values of a column, it probably means none of them."""
_MAX_STATEMENTS = 6
"""Statements about one table."""
_MIN_STEM_CHARS = 5
"""Characters of a value that may be the beginning of a word, as in "Japanese"."""
_MAX_CODE_CHARS = 3
"""Values up to this length, and those in capital letters, are only recognised as they are written."""
_MAX_STEM_CHARS = 20
_MAX_POSITIONS = 20
"""Places of a word in a question that are looked at, so that long questions take linear time."""
_MIN_SPELLED_CHARS = 3
"""Shorter words of a question are not looked for in another spelling."""
_WORD = re.compile(r"[^\W_]+")
_COMMON_WORDS = frozenset(
    "a all an and any are as at average be by date day did do does each first for from had has have high highest how i if in is it its"
    " last low lowest many mean month more most much name no not number of off on one or per price region than that the their them there"
    " these they this those to total up value was week were what when where which who will with without year yes you your".split()
)
"""Words of a question that do not name a value on their own."""


def named_values(
    namespace: dict[str, object], names: Sequence[str], question: str
) -> dict[str, str]:
    """Describe which values of tables a question names.

    Args:
        namespace: The user's namespace.
        names: The names of its variables that may be described; what is not a table is left out.
        question: As the user wrote it.

    Returns:
        Statements by the name of a table. Tables are left out if the question names none of their
        values, or if they cannot be read in time.
    """
    asked = _Question(question)
    tables = {
        name: namespace[name]
        for name in names
        if name in namespace and not looks_secret(name) and variable_kind(namespace[name]) == "data"
    }
    statements: dict[str, str] = {}
    for name, table in tables.items():
        work = partial(_table_statements, name, table, asked)
        try:
            table_statements = run_with_timeout(_TIMEOUT_S / len(tables), work)
        except Exception:  # a library's object in an unforeseen state, or too slow
            continue
        if table_statements:
            statements[name] = "; ".join(table_statements)
    return statements


def _table_statements(name: str, table: object, question: _Question) -> list[str]:
    """Describe the values of one table that a question names."""
    statements: list[str] = []
    for label, texts in text_columns(table).items():
        column = f"{name}[{label!r}]"
        values = [text for text in _names(texts) if question.mentions(text)]
        if not values:
            spellings = _other_spellings(texts, question.names)
            statements += [
                f"in {column} {word} is written {text!r}" for word, text in spellings.items()
            ]
        elif len(values) <= _MAX_VALUES:
            statements += [f"{column} has the value {value!r}" for value in values]
    return statements[:_MAX_STATEMENTS]


class _Question:
    """The words of a question, and where each form of them stands."""

    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text[:_MAX_QUESTION_CHARS])
        self._positions = _word_positions(self._words)
        """Indexes in `_words` by the forms of a word (see `_word_positions`)."""
        # The first word of a question has a capital letter even if it is not a name.
        self.names = {
            word.casefold(): word
            for word in self._words[1:]
            if word[0].isupper() and len(word) >= _MIN_SPELLED_CHARS
        }
        """The words that may be names, by themselves in small letters."""

    def mentions(self, text: str) -> bool:
        """Return whether the words of a text stand in the question, one after the other."""
        parts = _WORD.findall(text.casefold())
        if not parts:
            return False
        starts = self._positions.get(parts[0], ())
        if len(parts) > 1:
            return any(self._goes_on(start, parts[1:]) for start in starts)
        if parts[0] in _COMMON_WORDS:
            return False
        is_code = len(text) <= _MAX_CODE_CHARS or text.isupper()
        return any(not is_code or self._words[start] == text for start in starts)

    def _goes_on(self, start: int, parts: Sequence[str]) -> bool:
        """Return whether the words after a position are these, in small letters."""
        return all(
            position in self._positions.get(part, ())
            for position, part in enumerate(parts, start + 1)
        )


def _word_positions(words: Sequence[str]) -> dict[str, list[int]]:
    """Return where the words of a question stand, by each of their forms: in small letters, in the
    singular, and cut to the beginnings that may be a value."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        folded = word.casefold()
        forms = {folded, *_singulars(folded)}
        forms.update(
            folded[:end] for end in range(_MIN_STEM_CHARS, min(len(folded), _MAX_STEM_CHARS))
        )
        for form in forms:
            form_positions = positions.setdefault(form, [])
            if len(form_positions) < _MAX_POSITIONS:
                form_positions.append(position)
    return positions


def _singulars(word: str) -> Iterator[str]:
    """Yield possible singulars of an English word in small letters, not all of them real words."""
    if len(word) > 3:
        for ending, singular in (("s", ""), ("es", ""), ("ies", "y")):
            if word.endswith(ending):
                yield word[: -len(ending)] + singular


def _other_spellings(texts: Collection[str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the names in a question that a column spells in another way, each with its only
    spelling there.

    Args:
        texts: The texts of the column.
        names: The names in the question, by themselves in small letters.
    """
    spellings: dict[str, set[str]] = {}
    for text in _names(texts):
        for word in _WORD.findall(text):
            folded = word.casefold()
            if folded in names and folded not in _COMMON_WORDS:
                spellings.setdefault(names[folded], set()).add(word)

    other_spellings: dict[str, str] = {}
    for name, column_spellings in spellings.items():
        if len(column_spellings) == 1 and name not in column_spellings:
            (other_spellings[name],) = column_spellings
    return other_spellings


def _names(texts: Collection[str]) -> Iterator[str]:
    """Yield the texts that may be names."""
    for number, text in enumerate(texts):
        if number == _MAX_TEXTS:
            return
        if len(text) <= _MAX_TEXT_CHARS:
            yield text
