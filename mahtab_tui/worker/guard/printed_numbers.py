"""Patterns of shell commands that print nothing but numbers, such as ``$(nproc)`` and ``$(ls | wc -l)``.

Their output may stand in arithmetic: other texts there could be read as code (`shell_arithmetic`).
"""

from __future__ import annotations

import re

_PLAIN_WORD = r"(?!-)(?:[\w./-]{1,200}|\"(?!-)[\w ./-]{1,200}\"|'(?!-)[\w ./-]{1,200}')"
_GREP_COUNT = rf"grep -[EFivw]{{0,4}}c[EFivw]{{0,4}} {_PLAIN_WORD}"
_COUNTING = "|".join(
    (
        r"nproc(?: --all)?|id -[ug]|seq(?: -?\d{1,20}){1,3}",
        r"date(?: -u)? \+%(?:s(?:%N)?|[YymdHMSju])",
        rf"wc -[clmw] ?< ?{_PLAIN_WORD}",
        rf"{_GREP_COUNT} {_PLAIN_WORD}|stat -c %[sXYZ] {_PLAIN_WORD}",
        r"git rev-list --count [\w./~^][\w./~^-]{0,200}",
    )
)
"""A command that prints numbers alone, and has no other command in it. `wc` with a file
also prints the file's name."""
_COUNTING_PIPE = (
    rf"(?:(?:[^()`'\"\\\n;&|#]|'[^'\n]{{0,100}}'){{1,200}}\|){{1,20}} ?(?:wc -[clmw]|{_GREP_COUNT})"
)
"""Commands that end with one that counts what the others print."""
PRINTING_PARENTHESES = re.compile(rf"\((?:{_COUNTING}|{_COUNTING_PIPE})\)")
"""What stands after the dollar sign of commands that print numbers alone."""
INNER_NUMBER = re.compile(rf"\$\((?:{_COUNTING}|(?P<pipe>{_COUNTING_PIPE}))\)")
"""Such commands in an expression, with the dollar sign. `pipe` has commands whose words must be read, too."""
