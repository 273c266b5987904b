"""The forms in which a secret may stand in a text: quoted, escaped or encoded."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MIN_SUBSTRING_CHARS = 8
"""A secret with at least this many characters is found anywhere in a text."""


def quoted_forms(secret: str) -> list[str]:
    """Return a secret as a whole text, with and without quotes."""
    data = secret.encode("utf-8", "surrogatepass")
    return [secret, repr(secret), repr(data), json.dumps(secret), f'"{secret}"', f"'{secret}'"]


def escaped_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is written in code, JSON, HTML and addresses."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield data.decode("latin-1")  # bytes decoded as characters

    literals = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    # Python chooses the quotes by the whole text: if it contains both kinds, Python escapes the
    # single ones.
    python_literals = (
        repr(f"'\"{secret}")[4:-1],
        ascii(f"'\"{secret}")[4:-1],
        repr(b"'\"" + data)[5:-1],
    )
    for literal in python_literals:
        literals += (literal, literal.replace("\\'", "'"))
    yield from literals

    # A literal within a literal.
    for literal in literals:
        escaped = literal.replace("\\", "\\\\")
        yield from (escaped, escaped.replace("'", "\\'"))
        yield json.dumps(literal, ensure_ascii=False)[1:-1]

    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted_markup = markup.replace('"', "&quot;")
    yield from (markup, quoted_markup, quoted_markup.replace("'", "&#x27;"))
    yield from (quote(data, safe=""), quote(data), quote_plus(data))


def encoded_forms(secret: str) -> Iterator[str]:
    """Yield a long secret as base64, for each alignment, and as hexadecimal digits."""
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for preceding_bytes in range(3):
        encoded = b64encode(b"\0" * preceding_bytes + data).decode().rstrip("=")
        # The first characters depend on what precedes the secret, the last ones on what follows it.
        start = (0, 2, 3)[preceding_bytes]
        end = (preceding_bytes + len(data)) * 8 // 6
        inner = encoded[start:end]
        if len(inner) >= MIN_SUBSTRING_CHARS:
            yield inner
            yield inner.translate(str.maketrans("+/", "-_"))
