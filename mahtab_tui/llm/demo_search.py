"""The demo model in a recursive search: looks, filters by code, hands down what is too much, and joins what comes back; all by rules.

It keeps nothing: where it stands follows from the code that it wrote before and from what that printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import indent

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from mahtab_tui.llm import demo_search_code as code
from mahtab_tui.llm.demo_query import ONE_A_LINE, TEN_LINES, Asked, understand
from mahtab_tui.llm.demo_reader import read
from mahtab_tui.llm.search_lines import LAST_CALL, OUTPUT, PLAIN, QUERY, SEARCH, TEXT
from mahtab_tui.llm.spoken import text_of

WHO = "Demo model (rules, no AI): "

FEW = 200
"""Matching lines that are answered from directly."""
SMALL = 400_000
"""Characters of a text that no part is handed down of."""
PART = 150_000
"""Characters of a part for a plain call."""
MOST_PARTS = 8
MOST_PLAIN_PARTS = 40

_SIZE = re.compile(r"(?<![\d,])([\d,]+) characters in [\d,]+ lines")
_COUNT = re.compile(r"^(.+): (\d+) lines$", re.MULTILINE)
_HITS = re.compile(r"^(\d+) lines have \d+ of the \d+ signs$", re.MULTILINE)
_CALLS_LEFT = re.compile(r"^Left: .*?([\d,]+) model calls", re.MULTILINE)


def search_answer(messages: Sequence[BaseMessage]) -> str | None:
    """What the demo says in a search; None where the conversation is none."""
    if not messages or not isinstance(messages[0], SystemMessage):
        return None
    system, texts = text_of(messages[0]), [text_of(message) for message in messages[1:]]
    if system.startswith(PLAIN):
        return _plain(texts[-1] if texts else "")
    if not system.startswith(SEARCH):
        return None
    said = [text_of(message) for message in messages[1:] if isinstance(message, AIMessage)]
    return _turn(system, texts[0] if texts else "", said, texts[-1] if texts else "")


def _plain(message: str) -> str:
    asked = understand(_between(QUERY, message))
    text = _between(TEXT, message)
    if not text:
        return f"{WHO}there is no text to answer from."
    return ("" if asked.bare else WHO) + read(asked, text)


def _turn(system: str, first: str, said: list[str], last: str) -> str:
    query = _between(QUERY, first)
    asked = understand(query)
    if last.startswith(LAST_CALL):
        return _so_far(asked, said, last)
    output = _between(OUTPUT, last)
    if said and f'<{OUTPUT} status="ok"' not in last:
        return _block("That did not work; I give what a short look finds.", _short(asked))
    if not asked.patterns:
        return _block("The query has no word that I could look for; I look at what there is.", f"who = {WHO!r}\n{code.OVERVIEW}")
    if not said:
        return _block("I look at the beginning, and count the lines that have the words of the query.", f"patterns = {asked.patterns!r}\n{code.LOOK}")
    written = said[-1]
    if code.LOOK in written:
        return _filter(asked, output)
    if "best = max(map(score, hits))" in written:
        return _answer(asked, system, first, last, output)
    return _merge(asked)


def _filter(asked: Asked, output: str) -> str:
    counts = {word: int(count) for word, count in _COUNT.findall(output) if word in asked.patterns}
    words = sorted((word for word in asked.patterns if counts.get(word)), key=lambda word: counts[word])
    if not words:
        missing = ", ".join(asked.patterns)
        answer = "" if asked.bare else f"{WHO}no line of the text has any of the words of the query ({missing}), in any form that my rules know."
        return _block("None of the words is there.", _final(answer))
    filtering = code.FILTER.replace("\n\ndef score", f"\ntests.append{asked.limit.code()}\n\ndef score") if asked.limit else code.FILTER
    return _block(f"The rarest word is {words[0]!r}; I filter by it.", f"words = {words!r}\n{filtering}")


def _answer(asked: Asked, system: str, first: str, last: str, output: str) -> str:
    hits = int(found[1]) if (found := _HITS.search(output)) else 0
    parts = _parts(asked, system, first, last, hits)
    setting = _settings(asked)
    if parts:
        query = f"query = {f'{asked.query} {TEN_LINES}'!r}\n"
        if asked.fields:
            query = f"fields = {list(asked.fields)!r}\n{code.VALUES}{query}if found:\n    query = {f'{asked.query} {ONE_A_LINE}'!r}\n"
        return _block(f"{hits:,} lines are too many for one look; I ask about {parts} parts at once.", f"{query}n = {parts}\n{code.RECURSE}")
    if asked.form == "count" and not asked.fields:
        return _block("I count them a second way.", setting + code.COUNT + (code.FINAL_BARE_COUNT if asked.bare else code.FINAL_COUNT))
    if not asked.fields:
        return _block("I collect them.", setting + (code.FINAL_BARE_LINES if asked.bare else code.FINAL_LINES))
    values = f"{setting}fields = {list(asked.fields)!r}\n{code.VALUES}"
    if asked.bare:
        return _block("I take the values out of them.", values + code.FINAL_BARE_VALUES + code.FINAL_BARE_LINES)
    final = {"most": code.FINAL_MOST, "values": code.FINAL_VALUES, "count": f"if found:\n    {code.FINAL_DIFFERENT}", "lines": ""}[asked.form]
    rest = code.COUNT + code.FINAL_COUNT if asked.form == "count" else code.FINAL_LINES
    return _block(f"I take the {asked.noun} out of them.", f"{values}{final}# The lines have no such values: the lines themselves, then.\n{rest}")


def _parts(asked: Asked, system: str, first: str, last: str, hits: int) -> int:
    """How many parts are handed down; 0 where code does it alone."""
    size = int(found[1].replace(",", "")) if (found := _SIZE.search(_between(TEXT, first))) else 0
    if hits <= FEW or size <= SMALL or asked.form in ("count", "most"):
        return 0
    calls = int(found[1].replace(",", "")) // 2 if (found := _CALLS_LEFT.search(last)) else MOST_PLAIN_PARTS
    if "greatest depth" in system:
        wanted = -(-size // PART)
        return wanted if wanted <= min(calls, MOST_PLAIN_PARTS) else 0
    return min(MOST_PARTS, calls) if calls > 1 else 0


def _merge(asked: Asked) -> str:
    setting = _settings(asked)
    lines = code.MERGE_LINES + (code.FINAL_BARE_JOINED if asked.bare else code.FINAL_JOINED_LINES)
    if not asked.fields:
        return _block("I join the lines.", setting + lines)
    values = code.MERGE_VALUES + (code.FINAL_BARE_JOINED if asked.bare else code.FINAL_JOINED_VALUES)
    return _block(
        "I join what came back, and compare it with what code finds.", f"{setting}if found:\n{indent(values, '    ')}else:\n{indent(lines, '    ')}"
    )


def _short(asked: Asked) -> str:
    """Code that needs nothing of the turns before."""
    pattern = "|".join(pattern.removeprefix("(?i)") for pattern in asked.patterns.values())
    listed = '"\\n".join(hit[:300] for hit in hits)'
    return f"hits = grep({f'(?i){pattern}'!r}, max_matches=50)\nFINAL({'' if asked.bare else repr(WHO) + ' + '}{listed})\n"


def _so_far(asked: Asked, said: list[str], last: str) -> str:
    words = ", ".join(asked.patterns)
    return f"{WHO}the search ended before its answer. It looked for lines with {words}, in {len(said)} turns; ask again with a larger budget."


def _settings(asked: Asked) -> str:
    bounds = [asked.limit.words] if asked.limit else []
    return f"who = {WHO!r}\nbounds = {bounds!r}\nnoun = {asked.noun!r}\n{code.HAVE}"


def _final(answer: str) -> str:
    return f"FINAL({answer!r})\n"


def _block(words: str, source: str) -> str:
    return f"{words}\n\n```python\n{source}```\n"


def _between(tag: str, message: str) -> str:
    """What stands between a tag and its end, which nothing inside can forge."""
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return found[1] if found else ""
