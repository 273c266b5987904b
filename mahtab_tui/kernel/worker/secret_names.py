"""Recognises names that look like those of secrets, whose values are hidden in lists and
summaries."""

from __future__ import annotations

import re

from .statics import descends
from .summary import summary

UNTOLD = "••••••••"
"""Shown instead of a hidden value."""

_HINT = re.compile("pass|pw|secret|token|key|cred|bearer|auth", re.IGNORECASE)
"""Occurs in each word of secrets' names; a quick test that most names fail."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = frozenset(
    (
        "password passwords passwd passphrase passcode pwd pw secret secrets token apikey apikeys credential credentials bearer "
        "authorization privatekey accesskey secretkey authtoken accesstoken"
    ).split()
)
_KEYS = frozenset(
    "api access private secret auth signing encryption ssh master session service account".split()
)
"""Words before ``key`` or ``keys`` that make it a secret; ``key`` alone is usually a dict's."""
_ABOUT = frozenset(
    "count counts length lengths len size sizes limit limits id ids index type types name names url path file budget rate usage policy field".split()
)
"""Last words of names for something about a secret, not the secret itself."""
_VALUES = (str, bytes, bytearray, int, float, complex)
"""Types whose summary is the value, or its length."""


def looks_secret(name: str) -> bool:
    """Tell whether a name contains a word such as ``password``, ``token`` or ``api_key``:
    ``DB_PASSWORD``, ``apiKey2``."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[:200])]
    if not words or words[-1] in _ABOUT:
        return False
    return not _SECRET.isdisjoint(words) or any(
        one in _KEYS and other in ("key", "keys") for one, other in zip(words, words[1:])
    )


def hides(name: str, value: object) -> bool:
    """Tell whether the value of a name is hidden. Containers are not searched; None, True and False
    are shown."""
    cls = type(value)
    return looks_secret(name) and cls is not bool and any(descends(cls, base) for base in _VALUES)


def summary_of(name: str, value: object) -> str:
    """Return `summary.summary`, or `UNTOLD` if the value is hidden."""
    return UNTOLD if hides(name, value) else summary(value)
