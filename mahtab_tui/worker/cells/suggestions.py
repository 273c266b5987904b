"""Names in sentences: similar ones, and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, islice

from ..stdlib import late_import
from ..values.summaries import one_line

_MAX_COMPARED_NAMES = 2_000
_MAX_SUGGESTED_NAMES = 3


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three of `names`, those that are spelt most like `name`, without itself."""
    candidates = list(islice((other for other in names if other != name), _MAX_COMPARED_NAMES))
    plain_forms = {candidate: _plain(candidate) for candidate in candidates}
    plain_name = _plain(name)
    if not plain_name:
        return []  # signs alone are not similar
    same = [candidate for candidate in candidates if plain_forms[candidate] == plain_name]
    if same:
        return same[:_MAX_SUGGESTED_NAMES]

    # Short names are similar by chance.
    cutoff = 0.6 if len(plain_name) > 3 else 0.75
    close_forms = late_import("difflib").get_close_matches(
        plain_name, set(plain_forms.values()), _MAX_SUGGESTED_NAMES, cutoff
    )
    similar = [
        candidate
        for form in close_forms
        for candidate in candidates
        if plain_forms[candidate] == form
    ]
    for candidate, form in plain_forms.items():
        is_long = min(len(plain_name), len(form)) >= 3
        if is_long and (plain_name in form or form in plain_name):
            similar.append(candidate)
    return list(dict.fromkeys(similar))[:_MAX_SUGGESTED_NAMES]


def did_you_mean(names: Iterable[str]) -> str:
    """Return a sentence that suggests names, after a blank; empty if there are none."""
    text = " or ".join(f"'{one_line(name, 60)}'" for name in names)
    if not text:
        return ""
    return f" Did you mean {text}?"


def list_names(names: Iterable[str], max_chars: int = 300) -> str:
    """Return names separated by commas, as many as fit, and how many there are in all."""
    # Blanks at the ends of a name are only seen in quotes.
    labels = [one_line(name if name == name.strip() else repr(name), 60) for name in names]
    widths = accumulate(len(label) + len(", ") for label in labels)
    count = sum(width <= max_chars for width in widths)
    text = ", ".join(labels[:count])
    if count == len(labels):
        return text
    # The caller may have passed only the first names.
    is_whole = len(labels) < _MAX_COMPARED_NAMES
    if is_whole:
        return f"{text}, … ({len(labels):,} in all)"
    return f"{text}, …"


def _plain(name: str) -> str:
    """Return the letters and digits of a name in small letters, by which names are compared."""
    return re.sub(r"[\W_]+", "", name[:100]).lower()
