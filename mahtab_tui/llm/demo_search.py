"""The demo model in a search: finds the lines that have most of the query's words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from mahtab_tui.llm.chunks import text_of
from mahtab_tui.llm.search_lines import LAST_CALL, PLAIN, QUERY, SEARCH, TEXT

WHO = "Demo model (rules, no AI): "

_STOP = frozenset(
    "about all and any are can did does find for from give had happen happened has have her how its line lines list many most name not number out show"
    " tell text was were than that the their there these they this those what when where which who whom whose why will with word words you your".split()
)
_ENDING = re.compile(r"(?<=\w{3})(?:ed|ing|e?s)$")
_CODE = """\
import re

found = {word: hits for word, pattern in patterns.items() if (hits := grep(pattern, max_matches=5000))}
if not found:
    FINAL(who + "no line of the text has any of the words of the query. It begins: " + peek(400))
rarest = min(found.values(), key=len)

def score(line):
    return sum(re.search(pattern, line) is not None for pattern in patterns.values())

best = max(map(score, rarest))
hits = [hit for hit in rarest if score(hit) == best]
lines = "\\n".join(f"line {getattr(hit, 'line', '?')}: {hit[:500]}" for hit in hits[:60])
have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best} of the words {', '.join(patterns)}"
FINAL(f"{who}{have}:\\n{lines}")
"""


def search_answer(messages: Sequence[BaseMessage]) -> str | None:
    """Return the demo's next answer in a search; None if the conversation is not a search."""
    if not messages or not isinstance(messages[0], SystemMessage):
        return None
    system, last = text_of(messages[0]), text_of(messages[-1])
    if system.startswith(PLAIN):
        return _plain(_between(QUERY, last), _between(TEXT, last).split("\n"))
    if not system.startswith(SEARCH):
        return None
    patterns = _patterns(_between(QUERY, text_of(messages[1])))
    if last.startswith(LAST_CALL) or any(isinstance(message, AIMessage) for message in messages):
        return f"{WHO}its code failed. It looked for lines with {', '.join(patterns)}."
    return f"I look for the lines that have most of the words.\n\n```python\nwho = {WHO!r}\npatterns = {patterns!r}\n{_CODE}```\n"


def _patterns(query: str) -> dict[str, str]:
    """Return the words to look for, with a regular expression for each that allows other
    endings."""
    words = (word for word in re.findall(r"\w{3,}", query.lower()) if word not in _STOP)
    return {word: rf"(?i)\b{re.sub(_ENDING, '', word)}" for word in words}


def _plain(query: str, lines: Sequence[str]) -> str:
    patterns = _patterns(query)
    scores = [
        sum(re.search(pattern, line) is not None for pattern in patterns.values()) for line in lines
    ]
    if not (best := max(scores)):
        return f"{WHO}no line of the text has any of the words of the query."
    hits = [
        f"line {number}: {line[:500]}"
        for number, (line, score) in enumerate(zip(lines, scores, strict=True), 1)
        if score == best
    ]
    have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best} of the words {', '.join(patterns)}"
    return "\n".join([f"{WHO}{have}:", *hits[:10]])


def _between(tag: str, message: str) -> str:
    """Return the text between a tag and its end tag, which nothing inside can forge."""
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return found[1] if found else ""
