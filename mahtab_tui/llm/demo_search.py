"""The demo model in a search: looks for the query's words by rules, and asks about parts if too many lines match.

It has no state: the next step follows from its earlier answers and from what its code printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from mahtab_tui.llm.chunks import text_of
from mahtab_tui.llm.search_lines import LAST_CALL, OUTPUT, PLAIN, QUERY, SEARCH, TEXT

WHO = "Demo model (rules, no AI): "
BARE = "Answer with lines alone, as 'line N: its words'."
"""Added to the query of sub-calls whose lines will be joined."""
FEW = 200
"""Up to so many matching lines, no sub-calls are made."""
PARTS = 8

_STOP = frozenset(
    "about all and any are can did does find for from give had happen happened has have her how its line lines list many most name not number out show"
    " tell text was were than that the their there these they this those what when where which who whom whose why will with word words you your".split()
)
_ENDING = re.compile(r"(?<=\w{3})(?:ed|ing|e?s)$")
_COUNT = re.compile(r"^(\w+): (\d+) lines$", re.MULTILINE)
_CALLS_LEFT = re.compile(r"^Left: .*?([\d,]+) model calls", re.MULTILINE)

LOOK = """\
print(peek(400))
print("...")
for word, pattern in patterns.items():
    print(f"{word}: {len(grep(pattern, max_matches=5000))} lines")
"""

ANSWER = """\
import re

# The rarest word first; then the lines that have most of the others.
rarest, *others = [re.compile(patterns[word]) for word in words]

def score(line):
    return sum(other.search(line) is not None for other in others)

hits = grep(rarest, max_matches=None)
best = max(map(score, hits))
hits = [hit for hit in hits if score(hit) == best]
listed = [f"line {getattr(hit, 'line', '?')}: {hit[:500]}" for hit in hits]
have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best + 1} of the words {', '.join(words)}"
if len(hits) > few and parts:
    listed, line = [], 1
    pieces = list(partition(parts))
    answers = rlm_map(query, pieces)
    for piece, answer in zip(pieces, answers):
        listed += [f"line {int(at) + line - 1}: {said}" for at, said in re.findall(r"(?m)^line (\\d+): (.*)", answer)]
        line += piece.count("\\n")
    have += f". Those that {sum(not answer.startswith('[failed') for answer in answers)} of {len(pieces)} parts name"
more = f"\\n... and {len(listed) - most:,} more" if len(listed) > most else ""
FINAL(("" if bare else who + have + ":\\n") + "\\n".join(listed[:most])[:30_000] + more)
"""


def search_answer(messages: Sequence[BaseMessage]) -> str | None:
    """Return the demo's next answer in a search; None if the conversation is not a search."""
    if not messages or not isinstance(messages[0], SystemMessage):
        return None
    system, texts = text_of(messages[0]), [text_of(message) for message in messages[1:]]
    if system.startswith(PLAIN):
        return _plain(texts[-1] if texts else "")
    if not system.startswith(SEARCH):
        return None
    said = any(isinstance(message, AIMessage) for message in messages)
    return _turn(system, texts[0] if texts else "", texts[-1] if texts else "", begun=said)


def patterns_of(query: str) -> dict[str, str]:
    """Return the words to look for, with a regular expression for each that allows other endings."""
    found = (word for word in re.findall(r"\w{3,}", query.replace(BARE, "").lower()) if word not in _STOP)
    return {word: rf"(?i)\b{re.sub(_ENDING, '', word)}" for word in found}


def _plain(message: str) -> str:
    query, lines = _between(QUERY, message), _between(TEXT, message).split("\n")
    patterns, who = patterns_of(query), "" if BARE in query else WHO
    scores = [sum(re.search(pattern, line) is not None for pattern in patterns.values()) for line in lines]
    if not (best := max(scores)):
        return who and f"{who}no line of the text has any of the words of the query."
    hits = [f"line {number}: {line[:500]}" for number, (line, score) in enumerate(zip(lines, scores, strict=True), 1) if score == best]
    have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best} of the words {', '.join(patterns)}:\n"
    return (who and who + have) + "\n".join(hits[:10])


def _turn(system: str, first: str, last: str, *, begun: bool) -> str:
    query = _between(QUERY, first)
    patterns, bare = patterns_of(query), BARE in query
    if last.startswith(LAST_CALL):
        return f"{WHO}the search ended before its answer. It looked for lines with {', '.join(patterns)}; ask again with a larger budget."
    if not patterns:
        return _code(
            "The query has no word that I could look for.", f"FINAL({WHO!r} + 'the query has no word to look for. The text begins: ' + peek(400))\n"
        )
    if begun and f'<{OUTPUT} status="ok"' not in last:
        any_of_them = "(?i)" + "|".join(pattern.removeprefix("(?i)") for pattern in patterns.values())
        lines = f"'\\n'.join(grep({any_of_them!r}, max_matches=50))"
        return _code("My code failed; I give the lines that have any of the words.", f"FINAL({'' if bare else WHO!r} + {lines})\n")
    if not begun:
        return _code("I look at the beginning, and count the lines that have the words of the query.", f"patterns = {patterns!r}\n{LOOK}")
    counts = {word: int(count) for word, count in _COUNT.findall(_between(OUTPUT, last)) if word in patterns}
    words = sorted((word for word in patterns if counts.get(word)), key=lambda word: counts[word])
    if not words:
        missing = "" if bare else f"{WHO}no line of the text has any of the words of the query ({', '.join(patterns)})."
        return _code("I find none of the words.", f"FINAL({missing!r})\n")
    left = int(found[1].replace(",", "")) if (found := _CALLS_LEFT.search(last)) else 2 * PARTS
    parts = 0 if "greatest depth" in system else min(PARTS, left // 2)
    given = f"few, most, parts, bare, who = {FEW}, {10 if bare else 60}, {parts}, {bare}, {WHO!r}\nquery = {f'{query} {BARE}'!r}\nwords = {words!r}\n"
    return _code(f"The rarest word is {words[0]!r}: I begin with its lines.", f"{given}patterns = {patterns!r}\n{ANSWER}")


def _code(words: str, source: str) -> str:
    return f"{words}\n\n```python\n{source}```\n"


def _between(tag: str, message: str) -> str:
    """Return the text between a tag and its end tag, which nothing inside can forge."""
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return found[1] if found else ""
