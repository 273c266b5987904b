"""Records of a recursive search, always the same: what failed in a log of 20 MB, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mahtab_tui.bus.records import Record
from tests import tags
from tests.records import made

START = 1_000_000.0
"""Its start, in seconds since the epoch."""
CHARS = 20_431_118
QUERY = "What failed on 2026-03-29, and why?"

EXPLORE = """print(len(context))
peek(1500)
hits = grep(r"2026-03-29.*(ERROR|FATAL)", max_matches=400)
print(len(hits), hits[0], hits[-1], sep="\\n")"""
EXPLORED = """20431118
312
2026-03-29T02:58:11Z ERROR db.pool  checkout timed out after 5000 ms (active=64 idle=0 waiting=211)
2026-03-29T04:41:53Z ERROR web.api  502 upstream reset, route=/orders
"""
MAP = """parts = partition(10)
answers = rlm_map("Which errors of 2026-03-29 are in this part, and what came right before the first one?", parts)
for n, answer in enumerate(answers):
    print(n, answer)"""
PART = """day = grep(r"2026-03-29T0[234]", max_matches=1000)
print(len(day))
print(*day[:5], sep="\\n")"""
BROKEN = """slow = [float(re.search(r"took (\\d+) ms", line)[1]) for line in day]
print(max(slow))"""
TRACEBACK = """Traceback (most recent call last):
  File "<turn 2>", line 1, in <module>
    slow = [float(re.search(r"took (\\d+) ms", line)[1]) for line in day]
TypeError: 'NoneType' object is not subscriptable
"""
EACH = """transactions = [line for line in grep(r"db.tx begin", max_matches=200)]
causes = rlm_map("Was this transaction ended before 03:14:10? Answer with its duration.", transactions)"""
ANSWER = (
    "The **database's connection pool** ran dry at 03:14: a report job (`job=monthly-close`) held 64 transactions open for 41 minutes.\n\n"
    "- 02:58:11 first checkout timeout, 211 requests waiting\n"
    "- 03:14:07 the pool is exhausted; `/orders` answers 502\n"
    "- 03:55:40 the job is killed by hand, errors end\n"
)
_SEARCHES = "I'll look for the hours in question."
_NOTHING = "no failure in this part"


def _fence(code: str) -> str:
    return f"```python\n{code}\n```\n"


class Scribe:
    """Writes the events of one search, at times of its own."""

    def __init__(self, tree: str = "t1") -> None:
        self.tree = tree
        self.now = START
        self.seq = 0

    def event(
        self, tag: str, node: str, text: str = "", /, *, wait: float = 0.02, **attrs: Any
    ) -> Record:
        self.now += wait
        numbered = {} if tag.endswith("-stream") else {"seq": self.seq}
        self.seq += bool(numbered)
        return made(tag, text, {"tree": self.tree, "node": node, **numbered, **attrs}, self.now)

    def call(self, node: str, event: str, text: str = "", /, **attrs: Any) -> Record:
        return self.event(tags.RLM_CALL, node, text, event=event, **attrs)

    def begin(self, node: str, query: str, **attrs: Any) -> Record:
        parent = node.rpartition(".")[0] or None
        usual: dict[str, Any] = {"kind": "rlm", "chars": 0, "spans": []}
        usual["model"] = "haiku" if parent else "sonnet"
        about = {"parent": parent, "depth": node.count("."), **usual, **attrs}
        return self.call(node, "begin", query, **about)

    def thinks(self, node: str, turn: int, *pieces: str, turns: int = 10) -> Iterator[Record]:
        yield self.call(node, "turn", turn=turn, turns=turns)
        for piece in pieces:
            yield self.event(tags.RLM_CHAT_STREAM, node, piece, turn=turn, wait=0.15)

    def answers(
        self,
        node: str,
        turn: int,
        words: str,
        tokens: int = 1400,
        cost: float = 0.0031,
        **attrs: Any,
    ) -> Iterator[Record]:
        yield self.event(tags.RLM_CHAT, node, words, turn=turn, **attrs)
        usage = {"input_tokens": tokens, "output_tokens": tokens // 8, "cost": cost}
        yield self.event(tags.USAGE, node, turn=turn, model="haiku", source="rlm", **usage)

    def runs(self, node: str, turn: int, code: str) -> Record:
        return self.event(tags.RLM_REPL_IN, node, code, turn=turn)

    def prints(
        self, node: str, turn: int, output: str, duration: float, *, chars: int = 0, **attrs: Any
    ) -> Record:
        about = {"status": "ok", "chars": chars or len(output), "duration": duration, **attrs}
        return self.event(tags.RLM_REPL_OUT, node, output, turn=turn, **about)

    def turn(
        self, node: str, turn: int, words: str, code: str, output: str, *, status: str = "ok"
    ) -> Iterator[Record]:
        half = len(words) // 2
        end = f"\n\n{_fence(code)}"
        yield from self.thinks(node, turn, words[:half], words[half:], end)
        yield from self.answers(node, turn, words + end, cut=turn == 1)
        yield self.runs(node, turn, code)
        yield self.prints(node, turn, output, 0.3, wait=0.3, status=status)

    def final(self, node: str, text: str, state: str = "done", **attrs: Any) -> Record:
        return self.event(tags.RLM_FINAL, node, text, state=state, **attrs)


def span_of(part: int, parts: int = 10, start: int = 0, end: int = CHARS) -> list[int]:
    size = (end - start) // parts
    return [start + part * size, end if part == parts - 1 else start + (part + 1) * size]


def beginning(scribe: Scribe) -> Iterator[Record]:
    """The root explores the text, and makes ten sub-calls."""
    yield scribe.begin("1", QUERY, chars=CHARS, spans=[[0, CHARS]], cell=5, source="log")
    words = "I'll look at the beginning and count the errors of that day first."
    yield from scribe.turn("1", 1, words, EXPLORE, EXPLORED)
    pieces = (
        "312 errors in two clusters. ",
        "I'll ask about each part of the log.",
        f"\n\n{_fence(MAP)}",
    )
    yield from scribe.thinks("1", 2, *pieces)
    yield from scribe.answers("1", 2, "".join(pieces), tokens=3100, cost=0.0118)
    yield scribe.runs("1", 2, MAP)
    query = "Which errors of 2026-03-29 are in this part, and what came right before the first one?"
    for part in range(10):
        about = {"batch": "b1", "index": part, "of": 10, "spans": [span_of(part)]}
        yield scribe.begin(f"1.{part + 1}", query, chars=CHARS // 10, **about)


def parts_at_work(scribe: Scribe) -> Iterator[Record]:
    """Four calls find nothing, one fails, one is overloaded; two continue."""
    for part in (1, 2, 3, 8):
        node = f"1.{part}"
        yield from scribe.turn(node, 1, _SEARCHES, PART, "0\n")
        yield scribe.final(node, _NOTHING, spans=[], duration=1.1 + part / 10)
    yield scribe.call("1.9", "back-off", seconds=4.0)
    words = "I'll measure how slow each query was."
    yield from scribe.turn("1.6", 1, words, BROKEN, TRACEBACK, status="error")
    reason = "The model could not be reached: overloaded after 5 tries."
    yield scribe.final("1.6", reason, "error", duration=6.2)
    output = "311\n2026-03-29T02:58:11Z ERROR db.pool  checkout timed out\n"
    yield from scribe.turn("1.5", 1, _SEARCHES, PART, output)
    question = "What held the connections? I'll ask about the 40 lines before."
    yield from scribe.thinks("1.5", 2, "All of them are in `db.pool`.\n", question)
    code = (
        'before = grep("monthly-close")\nprint(llm("Why did this job hold connections?", before))'
    )
    yield from scribe.answers("1.5", 2, code)
    yield scribe.runs("1.5", 2, code)
    about: dict[str, Any] = {"kind": "llm", "spans": [[8_801_000, 8_803_400]], "chars": 2400}
    yield scribe.begin("1.5.1", "Why did this job hold connections?", **about)
    reason = "db timeout 03:14: the job never committed"
    yield from scribe.thinks("1.5.1", 1, reason, turns=1)
    yield from scribe.answers("1.5.1", 1, reason, tokens=700, cost=0.0009)
    yield scribe.final("1.5.1", reason, duration=0.9)
    about = {"spans": [[8_700_000, 8_900_000]], "chars": 200_000}
    query = "Is there a deploy or a migration between 02:40 and 03:14?"
    yield scribe.begin("1.5.2", query, **about)
    words = "I'll search for both words.\n\n```python\nprint(*grep(\"deploy|migrat"
    yield from scribe.thinks("1.5.2", 1, words)
    pieces = "Nothing that looks like an error here yet; ", "I'll check the retries around 04:41"
    yield from scribe.thinks("1.7", 1, *pieces)


def _fan_out(scribe: Scribe, state: str) -> Record:
    about = {"request": "q1", "batch": "b2", "calls": 200, "tokens": 712_000, "usd": 0.68}
    return scribe.call("1.7", "fan-out", state=state, **about)


def asked(scribe: Scribe) -> Iterator[Record]:
    words = f"I'll ask about each transaction.\n\n{_fence(EACH)}"
    yield from scribe.answers("1.7", 1, words)
    yield scribe.runs("1.7", 1, EACH)
    yield _fan_out(scribe, "waiting")


def fanned_out(scribe: Scribe) -> Iterator[Record]:
    """After a yes, 180 of 200 calls have ended and 12 run."""
    start, end = span_of(6)
    yield _fan_out(scribe, "run")
    query = "Was this transaction ended before 03:14:10? Answer with its duration."
    for part in range(200):
        about: dict[str, Any] = {"batch": "b2", "index": part, "of": 200, "chars": 10_215}
        about |= {"kind": "llm", "spans": [span_of(part, 200, start, end)], "wait": 0.0}
        yield scribe.begin(f"1.7.{part + 1}", query, **about)
    for part in range(192):
        node = f"1.7.{part + 1}"
        words = f"No, it took {41 * part % 977} s"
        yield from scribe.thinks(node, 1, words, turns=1)
        if part < 180:
            yield from scribe.answers(node, 1, words, tokens=3300, cost=0.0034)
            failed = part in (23, 71, 150)
            result = ("overloaded after 5 tries", "error") if failed else (words, "done")
            yield scribe.final(node, *result, duration=0.8)


def ending(scribe: Scribe) -> Iterator[Record]:
    for part in range(180, 200):
        node = f"1.7.{part + 1}"
        yield from scribe.answers(node, 1, "Yes, 12 s", tokens=3300, cost=0.0034)
        yield scribe.final(node, "Yes, 12 s", duration=0.8)
    cause = [13_460_000, 13_700_000]
    first_span = [8_801_000, 8_803_400]
    second_span = [9_310_000, 9_318_000]
    answer = "64 transactions of `job=monthly-close` were open until 03:55:40"
    yield scribe.final("1.7", answer, "partial", spans=[cause])
    yield scribe.final("1.5.2", "stopped", "stopped", duration=3.3)
    yield scribe.prints("1.5", 2, "The job never committed.\n", 3.9)
    summary = "errors from 02:58 to 04:41; before the first one `job=monthly-close` begins"
    yield scribe.final("1.5", summary, spans=[first_span, second_span], duration=14.2)
    for part in (4, 9):
        yield from scribe.turn(f"1.{part}", 1, _SEARCHES, PART, "0\n")
        yield scribe.final(f"1.{part}", _NOTHING, duration=2.0)
    yield scribe.final("1.10", _NOTHING, duration=0.0)
    yield scribe.prints("1", 2, "0 no failure in this part\n…", 31.0, chars=1180)
    yield from scribe.turn("1", 3, "Now I know enough.", "FINAL(report)", "")
    yield scribe.final("1", ANSWER, spans=[first_span, second_span, cause])


def _search(parts: int, tree: str = "t1") -> list[Record]:
    scribe = Scribe(tree)
    all_parts = (beginning, parts_at_work, asked, fanned_out, ending)
    return [record for part in all_parts[:parts] for record in part(scribe)]


running: Callable[[], list[Record]] = partial(_search, 2)
"""Until sub-calls run."""
asking: Callable[[], list[Record]] = partial(_search, 3)
"""Until the question before the large fan-out."""
wide: Callable[[], list[Record]] = partial(_search, 4)
"""Until the middle of the large fan-out."""
done: Callable[..., list[Record]] = partial(_search, 5)
