"""Recognises the names of secrets, such as ``password`` and ``apiKey``, whose values are not
shown."""

from __future__ import annotations

import re

from .objects import is_subclass

HIDDEN_VALUE = "••••••••"
"""Stands for the value of a secret."""

_MAX_NAME_CHARS = 200
"""At most this many characters of a name are read."""
_HINT = re.compile("pass|pw|secret|token|key|cred|bearer|auth", re.IGNORECASE)
"""A quick test that most names fail."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a name in ``snake_case`` or ``camelCase``."""
_SECRET_WORDS = frozenset(
    (
        "password passwords passwd passphrase passcode pwd pw secret secrets token apikey apikeys credential credentials bearer "
        "authorization privatekey accesskey secretkey authtoken accesstoken"
    ).split()
)
_SECRET_KEY_WORDS = frozenset(
    "api access private secret auth signing encryption ssh master session service account".split()
)
"""Words before ``key`` or ``keys`` that make it a secret; ``key`` alone is usually a dict's."""
_WORDS_ABOUT_SECRETS = frozenset(
    "count counts length lengths len size sizes limit limits id ids index type types name names url path file budget rate usage policy field".split()
)
"""Last words of names for something about a secret, such as ``token_count``."""
_SECRET_TYPES = (str, bytes, bytearray, int, float, complex)


def looks_secret(name: str) -> bool:
    """Return whether a name is that of a secret, by its words."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[:_MAX_NAME_CHARS])]
    if not words or words[-1] in _WORDS_ABOUT_SECRETS:
        return False
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    return any(
        word in _SECRET_KEY_WORDS and next_word in ("key", "keys")
        for word, next_word in zip(words, words[1:])
    )


def is_hidden(name: str, value: object) -> bool:
    """Return whether a value is not shown because of its name.

    Containers are shown; what they hold has names of its own.
    """
    cls = type(value)
    if cls is bool or not looks_secret(name):
        return False
    return any(is_subclass(cls, base) for base in _SECRET_TYPES)
