"""A recursive search as records, always the same: what failed in a log of 20 MB, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mahtab_tui.bus.records import Record
from tests import tags
from tests.records import made

START = 1_000_000.0
"""When it begins, in seconds since the epoch."""
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
_SEEN = "errors from 02:58 to 04:41; before the first one `job=monthly-close` begins"


class Scribe:
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
        given = {
            "kind": "rlm",
            "model": "sonnet" if parent is None else "haiku",
            "chars": 0,
            "spans": [],
            **attrs,
        }
        return self.call(node, "begin", query, parent=parent, depth=node.count("."), **given)

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
        cost: float | None = 0.0031,
        **attrs: Any,
    ) -> Iterator[Record]:
        yield self.event(tags.RLM_CHAT, node, words, turn=turn, **attrs)
        usage: dict[str, Any] = {
            "model": "haiku",
            "input_tokens": tokens,
            "output_tokens": tokens // 8,
            "cost": cost,
            "source": "rlm",
        }
        yield self.event(tags.USAGE, node, turn=turn, **usage)

    def turn(
        self,
        node: str,
        turn: int,
        words: str,
        code: str,
        output: str,
        *,
        status: str = "ok",
        wait: float = 0.3,
    ) -> Iterator[Record]:
        answer = f"{words}\n\n```python\n{code}\n```\n"
        yield from self.thinks(
            node,
            turn,
            words[: len(words) // 2],
            words[len(words) // 2 :],
            f"\n\n```python\n{code}\n```\n",
        )
        yield from self.answers(node, turn, answer, cut=turn == 1)
        yield self.event(tags.RLM_REPL_IN, node, code, turn=turn)
        yield self.event(
            tags.RLM_REPL_OUT,
            node,
            output,
            turn=turn,
            wait=wait,
            status=status,
            duration=wait,
            chars=len(output),
        )

    def final(self, node: str, text: str, state: str = "done", **attrs: Any) -> Record:
        return self.event(tags.RLM_FINAL, node, text, state=state, **attrs)


def span_of(part: int, parts: int = 10, start: int = 0, end: int = CHARS) -> list[int]:
    size = (end - start) // parts
    return [start + part * size, end if part == parts - 1 else start + (part + 1) * size]


def beginning(scribe: Scribe) -> Iterator[Record]:
    """The root looks around, and hands ten parts down."""
    yield scribe.begin("1", QUERY, chars=CHARS, spans=[[0, CHARS]], cell=5, source="log")
    yield from scribe.turn(
        "1",
        1,
        "I'll look at the beginning and count the errors of that day first.",
        EXPLORE,
        EXPLORED,
    )
    yield from scribe.thinks(
        "1",
        2,
        "312 errors in two clusters. ",
        "I'll ask about each part of the log.",
        f"\n\n```python\n{MAP}\n```\n",
    )
    yield from scribe.answers(
        "1",
        2,
        f"312 errors in two clusters. I'll ask about each part of the log.\n\n```python\n{MAP}\n```\n",
        tokens=3100,
        cost=0.0118,
    )
    yield scribe.event(tags.RLM_REPL_IN, "1", MAP, turn=2)
    query = "Which errors of 2026-03-29 are in this part, and what came right before the first one?"
    for part in range(10):
        spans = [span_of(part)]
        yield scribe.begin(
            f"1.{part + 1}", query, batch="b1", index=part, of=10, spans=spans, chars=CHARS // 10
        )


def parts_at_work(scribe: Scribe) -> Iterator[Record]:
    """Four parts have nothing, one fails, one is overloaded; two go on."""
    for part in (1, 2, 3, 8):
        node = f"1.{part}"
        yield from scribe.turn(node, 1, "I'll look for the hours in question.", PART, "0\n")
        yield scribe.final(node, "no failure in this part", spans=[], duration=1.1 + part / 10)
    yield scribe.call("1.9", "back-off", seconds=4.0)
    yield from scribe.turn(
        "1.6", 1, "I'll measure how slow each query was.", BROKEN, TRACEBACK, status="error"
    )
    yield scribe.final(
        "1.6", "The model could not be reached: overloaded after 5 tries.", "error", duration=6.2
    )
    yield from scribe.turn(
        "1.5",
        1,
        "I'll look for the hours in question.",
        PART,
        "311\n2026-03-29T02:58:11Z ERROR db.pool  checkout timed out\n",
    )
    yield from scribe.thinks(
        "1.5",
        2,
        "All of them are in `db.pool`.\n",
        "What held the connections? I'll ask about the 40 lines before.",
    )
    yield from scribe.answers(
        "1.5",
        2,
        'before = grep("monthly-close")\nprint(llm("Why did this job hold connections?", before))',
    )
    yield scribe.event(
        tags.RLM_REPL_IN,
        "1.5",
        'before = grep("monthly-close")\nprint(llm("Why did this job hold connections?", before))',
        turn=2,
    )
    yield scribe.begin(
        "1.5.1",
        "Why did this job hold connections?",
        kind="llm",
        spans=[[8_801_000, 8_803_400]],
        chars=2400,
    )
    yield from scribe.thinks("1.5.1", 1, "db timeout 03:14: the job never committed", turns=1)
    yield from scribe.answers(
        "1.5.1", 1, "db timeout 03:14: the job never committed", tokens=700, cost=0.0009
    )
    yield scribe.final("1.5.1", "db timeout 03:14: the job never committed", duration=0.9)
    yield scribe.begin(
        "1.5.2",
        "Is there a deploy or a migration between 02:40 and 03:14?",
        spans=[[8_700_000, 8_900_000]],
        chars=200_000,
    )
    yield from scribe.thinks(
        "1.5.2",
        1,
        "I'll search for both words.\n\n```python\nprint(*grep(\"deploy|migrat",
        turns=10,
    )
    yield from scribe.thinks(
        "1.7",
        1,
        "Nothing that looks like an error here yet; ",
        "I'll check the retries around 04:41",
    )


def asked(scribe: Scribe) -> Iterator[Record]:
    yield from scribe.answers(
        "1.7", 1, f"I'll ask about each transaction.\n\n```python\n{EACH}\n```\n"
    )
    yield scribe.event(tags.RLM_REPL_IN, "1.7", EACH, turn=1)
    yield scribe.call(
        "1.7",
        "fan-out",
        request="q1",
        batch="b2",
        calls=200,
        tokens=712_000,
        usd=0.68,
        state="waiting",
    )


def fanned_out(scribe: Scribe, *, done: int = 180, running: int = 12) -> Iterator[Record]:
    """The answer was yes: 200 calls, some of which have ended."""
    start, end = span_of(6)
    yield scribe.call(
        "1.7", "fan-out", request="q1", batch="b2", calls=200, tokens=712_000, usd=0.68, state="run"
    )
    for part in range(200):
        spans = [span_of(part, 200, start, end)]
        query = "Was this transaction ended before 03:14:10? Answer with its duration."
        yield scribe.begin(
            f"1.7.{part + 1}",
            query,
            kind="llm",
            batch="b2",
            index=part,
            of=200,
            spans=spans,
            chars=10_215,
            wait=0.0,
        )
    for part in range(done + running):
        node = f"1.7.{part + 1}"
        yield from scribe.thinks(node, 1, f"No, it took {41 * part % 977} s", turns=1)
        if part < done:
            failed = part in (23, 71, 150)
            yield from scribe.answers(
                node, 1, f"No, it took {41 * part % 977} s", tokens=3300, cost=0.0034
            )
            yield scribe.final(
                node,
                "overloaded after 5 tries" if failed else f"No, it took {41 * part % 977} s",
                "error" if failed else "done",
                duration=0.8,
            )


def ending(scribe: Scribe) -> Iterator[Record]:
    for part in range(180, 200):
        node = f"1.7.{part + 1}"
        yield from scribe.answers(node, 1, "Yes, 12 s", tokens=3300, cost=0.0034)
        yield scribe.final(node, "Yes, 12 s", duration=0.8)
    yield scribe.final(
        "1.7",
        "64 transactions of `job=monthly-close` were open until 03:55:40",
        "partial",
        spans=[[13_460_000, 13_700_000]],
    )
    yield scribe.final("1.5.2", "stopped", "stopped", duration=3.3)
    yield scribe.event(
        tags.RLM_REPL_OUT,
        "1.5",
        "The job never committed.\n",
        turn=2,
        status="ok",
        duration=3.9,
        chars=25,
    )
    yield scribe.final(
        "1.5", _SEEN, spans=[[8_801_000, 8_803_400], [9_310_000, 9_318_000]], duration=14.2
    )
    for part in (4, 9):
        yield from scribe.turn(f"1.{part}", 1, "I'll look for the hours in question.", PART, "0\n")
        yield scribe.final(f"1.{part}", "no failure in this part", duration=2.0)
    yield scribe.final("1.10", "no failure in this part", duration=0.0)
    yield scribe.event(
        tags.RLM_REPL_OUT,
        "1",
        "0 no failure in this part\n…",
        turn=2,
        status="ok",
        duration=31.0,
        chars=1180,
    )
    yield from scribe.turn("1", 3, "Now I know enough.", "FINAL(report)", "")
    rests = [[8_801_000, 8_803_400], [9_310_000, 9_318_000], [13_460_000, 13_700_000]]
    yield scribe.final("1", ANSWER, spans=rests)


def running() -> list[Record]:
    """Up to where parts are at work."""
    scribe = Scribe()
    return [*beginning(scribe), *parts_at_work(scribe)]


def asking() -> list[Record]:
    """Up to the question before the large fan-out."""
    scribe = Scribe()
    return [*beginning(scribe), *parts_at_work(scribe), *asked(scribe)]


def wide() -> list[Record]:
    """Up to the middle of the large fan-out."""
    scribe = Scribe()
    return [*beginning(scribe), *parts_at_work(scribe), *asked(scribe), *fanned_out(scribe)]


def done(tree: str = "t1") -> list[Record]:
    """The whole search."""
    scribe = Scribe(tree)
    return [
        *beginning(scribe),
        *parts_at_work(scribe),
        *asked(scribe),
        *fanned_out(scribe),
        *ending(scribe),
    ]
