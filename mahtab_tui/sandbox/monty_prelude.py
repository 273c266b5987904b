"""The code that a Monty sandbox runs before its first turn, and what its Python lacks."""

from __future__ import annotations

MODULES = (
    "re json math collections itertools functools datetime csv random bisect decimal dataclasses typing copy asyncio time hashlib base64 unicodedata"
).split()

GAPS = (
    "it is a part of Python only. There is no yield, no del, no inheritance of classes (so no exceptions or enums of your own), no property,"
    " classmethod or staticmethod, and there are no threads. The only modules are "
    + ", ".join(MODULES)
    + "; collections has no OrderedDict, dataclasses no asdict, and re.sub takes no function. csv readers take a list of lines. Parts are plain"
    " strings without .start, .end and .line, and answers have no .failed: a failed one begins with '[failed'. Call llm, rlm and their maps in loops"
    " or comprehensions, not from within map() or sorted()."
)
"""Follows "Missing from this Python" in the system prompt."""

PRELUDE = """\
import re as _re

_lines = _text.split("\\n")
if _lines[-1] == "":
    _lines.pop()

def grep(pattern, context_lines=0, max_matches=100):
    if isinstance(pattern, str):
        try:
            pattern = _re.compile(pattern)
        except Exception as error:
            raise ValueError(repr(pattern) + " is not a regular expression: " + str(error))
    most = len(_lines) if max_matches is None else max_matches
    blocks = []
    count = 0
    for number, line in enumerate(_lines):
        if pattern.search(line):
            count += 1
            if count > most:
                print("[grep: stopped at max_matches=" + str(max_matches) + "; more lines match. max_matches=None returns all]")
                break
            first = max(0, number - context_lines)
            last = min(len(_lines) - 1, number + context_lines)
            if context_lines > 0 and blocks and first <= blocks[-1][1] + 1:
                blocks[-1][1] = last
            else:
                blocks.append([first, last])
    _tell(blocks)
    return ["\\n".join(_lines[first : last + 1]) for first, last in blocks]

def FINAL_VAR(variable):
    if isinstance(variable, str) and variable.isidentifier():
        raise NameError("FINAL_VAR cannot look up names here. Call FINAL(" + variable + ")")
    FINAL(variable)

def _tell(blocks):
    spans = []
    place = 0
    done = 0
    for first, last in blocks[:1000]:
        while done < first:
            place += len(_lines[done]) + 1
            done += 1
        start = place
        while done <= last:
            place += len(_lines[done]) + 1
            done += 1
        spans.append([start, place - 1])
    if spans:
        _matched(spans)
"""
"""Matching runs inside the sandbox, since a hostile pattern may take for ever. Needs `_text`."""
