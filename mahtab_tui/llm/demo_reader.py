"""The demo model as a plain call: what it reads out of a text by rules."""

from __future__ import annotations

import re

from mahtab_tui.llm.demo_query import Asked

MOST_LINES = 10


def read(asked: Asked, text: str) -> str:
    """The answer to a query from a text: a count, values, or the lines that have most of its words."""
    lines = text.split("\n")
    scores = [_score(asked, line) for line in lines]
    best = max(scores)
    if best == 0:
        return "" if asked.bare else "no line of the text has any of the words of the query."
    hits = [number for number, score in enumerate(scores) if score == best]
    if values := _values(asked.fields, [lines[number] for number in hits]):
        if asked.bare:
            return "\n".join(values)
        if asked.form == "count":
            return f"{len(values):,} different {asked.noun}: {', '.join(values)}"
        if asked.form == "most":
            first = max(values, key=lambda value: values[value])
            return f"{first}, in {values[first]:,} of {len(hits):,} lines"
        return f"{len(values):,} {asked.noun}: {', '.join(values)}"
    listed = "\n".join(f"line {number + 1}: {lines[number][:500]}" for number in hits[:MOST_LINES])
    if asked.bare:
        return listed
    return f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} most of the words {', '.join(asked.patterns)}:\n{listed}"


def _score(asked: Asked, line: str) -> int:
    words = sum(re.search(pattern, line) is not None for pattern in asked.patterns.values())
    return words + (words > 0 and asked.limit is not None and asked.limit.holds(line))


def _values(fields: tuple[str, ...], lines: list[str]) -> dict[str, int]:
    """The values of the first field that half of the lines have, each with its number of lines."""
    for field in fields:
        found = [match[1].rstrip(".,;:") for line in lines if (match := re.search(field, line))]
        if len(found) * 2 >= len(lines):
            return {value: found.count(value) for value in dict.fromkeys(found)}
    return {}
