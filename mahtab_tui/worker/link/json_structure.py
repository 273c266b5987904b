"""Measures the structure of a JSON text: its bytes outside string literals.

A reader that parses the text of an untrusted writer limits them, because many tiny values need much
more memory than their text: the three bytes ``[],`` become an object of sixty.
"""

from __future__ import annotations


def exceeds_structure_limit(text: bytes, max_bytes: int) -> bool:
    """Return whether a JSON text has more than `max_bytes` outside its string literals.

    Takes linear time for any bytes, unlike a regular expression.
    """
    if len(text) <= max_bytes:
        return False
    # With escapes removed, every quote opens or closes a string, so the even pieces are outside
    # strings.
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    quote_count = unescaped.count(b'"')
    if quote_count > max_bytes:
        return True
    outside_bytes = sum(map(len, unescaped.split(b'"')[::2]))
    return quote_count + outside_bytes > max_bytes
