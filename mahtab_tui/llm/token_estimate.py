"""Estimates the tokens of texts, for figures that are shown: rather exact, while `usage.tokens_in`
is rather too high.

A tokenizer first cuts text into pieces much like these; how many tokens each kind becomes on
average was fitted to the counts of OpenAI's tokenizers (cl100k and o200k) for prose in several
languages, code, output and JSON. `tests/data/token_counts.json` has counts to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(
    r"""(?P<word>[^\r\n\w]?(?:[A-Z]?[a-z]+|[A-Z]+(?![a-z])))
      | (?P<digits>\d{1,3})
      | (?P<sign_of_word>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])
      | (?P<letters>[^\W\d_]+)
      | (?P<lines>\s*[\r\n]+)
      | (?P<blanks>\s+)
      | (?P<signs>[ ]?(?:[^\s\w]|_)+[\r\n]*)""",
    re.VERBOSE,
)
_EACH = {
    "word": 1.1,
    "digits": 1.54,
    "sign_of_word": 0.89,
    "letters": 0.0,
    "lines": 0.33,
    "blanks": 0.98,
    "signs": 0.31,
}
"""Tokens for each piece of a kind."""
_LONG_WORD, _LONG = 0.37, 7
"""Added for a word of more letters."""
_UNKNOWN_LETTER, _KNOWN = 0.35, 20
"""Added for each letter beyond those that a word of a language may have, as in keys and
sequences."""
_AFTER_SIGN = 0.94
"""Added for a word right after a sign other than a blank, as in ``.text``."""
_LETTER = 1.61
"""Tokens for each letter outside of a to z."""
_SIGN = 0.37
"""Added for each sign after the second one of a row."""
_FRAME_TOKENS = 4
"""Tokens around each message."""


def estimated_tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of messages with these texts."""
    return round(sum(_FRAME_TOKENS + _tokens(text) for text in texts))


def _tokens(text: str) -> float:
    total = 0.0
    for found in _PIECE.finditer(text):
        kind, piece = found.lastgroup or "", found[0]
        total += _EACH[kind]
        if kind == "word":
            after_sign = not piece[0].isalpha()
            total += _LONG_WORD * (len(piece) - after_sign > _LONG) + _AFTER_SIGN * (
                after_sign and piece[0] != " "
            )
            total += _UNKNOWN_LETTER * max(0, len(piece) - _KNOWN)
        elif kind == "letters":
            total += _LETTER * len(piece)
        elif kind == "signs":
            total += _SIGN * max(0, len(piece.strip()) - 2)
    return total
