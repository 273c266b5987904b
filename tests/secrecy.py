"""A key in every encoding, and a search for parts of it in a text."""

from __future__ import annotations

import base64
import json
import re

from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.sanitize import plain

KEY = "sk-proj-Qx7\"Zw9'Kd-Vb3mTn5Rj8Lp2Hs6"
"""Both quotes make every literal of it differ from it."""
PART = 6
"""Length of a part that counts as a leak; "sk-proj" is no secret."""

PRINT_KEY = r"""
import base64, json, sys
from pathlib import Path
key = Path("key.txt").read_text()
def say(key):
    print(key, repr(key), [key], json.dumps(key), key.encode())
    print("\0".join(key), key[:9] + "\x1b[31m" + key[9:] + "\x1b[0m", "\u200b".join(key))
    print(key[:17] + "\x1b]0;x\x07" + key[17:], f"\x1b]52;c;{key}\x07")
    print(base64.b64encode(f"user:{key}".encode()).decode(), key.encode().hex())
    for letter in key:
        print(letter, end="", flush=True)
    print()
say(key)
"""
"""A cell that prints the key of a file in every encoding."""


def leak(text: str) -> str:
    """Return a part of the key that can be read in a raw or drawn text, or nothing."""
    hexed = KEY.encode().hex()
    coded = base64.b64encode(f"user:{KEY}".encode()).decode()
    secret = [KEY[start : start + PART] for start in range(8, len(KEY) - PART)]
    secret += [json.dumps(part)[1:-1] for part in secret]
    secret += [hexed[start : start + 12] for start in range(16, len(hexed) - 12)]
    secret += [coded[start : start + 12] for start in range(20, len(coded) - 20)]
    views = [
        text,
        plain(text),
        re.sub(r"[^ -~]|\\u....|\\n", "", text),
        re.sub(r"\\x1b\[\d*m|\\u001b\[\d*m|\[\d*m|\\x..|\\u....|\\", "", plain(text)),
    ]
    return next((part for part in secret for view in views if part in view), "")


def assert_masked(text: str, *, expect_mask: bool = True) -> None:
    """Check that a text has no part of the key and, with `expect_mask`, a mask instead."""
    leaked = leak(text)
    assert not leaked, f"{leaked!r} in {text!r}"
    assert not expect_mask or MASK in text or json.dumps(MASK)[1:-1] in text, text
