"""Counts in sentences have separators of thousands."""

from __future__ import annotations

import re
from pathlib import Path

import mahtab_tui

_COUNT_BEFORE_NOUN = re.compile(r"\{len\([^{}]*\)\} (?:[a-z]|\{)")
"""A length without a format, and the word that is counted."""
_EXAMPLES = {"llm/demo.py", "worker/sandbox/functions.py"}
"""Files with code that a model writes."""


def test_counts_in_sentences_have_separators() -> None:
    root = Path(mahtab_tui.__file__).parent
    plain_counts = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if str(path.relative_to(root)) not in _EXAMPLES
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if _COUNT_BEFORE_NOUN.search(line)
    ]
    assert plain_counts == []
