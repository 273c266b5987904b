"""Figures of searches, with prepared answers and real sandboxes: turns, whole runs, sub-calls,
depth, and a large text."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from langchain_core.messages import BaseMessage

from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.api import rlm
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.search import Search, SearchSettings
from tests.benchmarks import recursion_peers
from tests.benchmarks.sandbox import QuietNode
from tests.benchmarks.table import Row, timed
from tests.recursion_scripts import Reply, ScriptedModel, query_of

TEXT = "".join(f"line {number} of the text\n" for number in range(10_000))
CALL = 0.05
"""Seconds of a sub-call."""


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _turn(replies: int, count: int) -> str:
    final = replies == count - 1
    return _block("FINAL(1)" if final else f"x{replies} = len(context)\nprint(x{replies})")


def _turns(count: int) -> Reply:
    """Make a model that answers in its last turn."""
    return lambda messages: _turn(sum(message.type == "ai" for message in messages), count)


def _five_turns(messages: list[dict[str, str]]) -> str:
    """Answer as a function that takes plain messages, like the models of the other engines."""
    return _turn(sum(message["role"] == "assistant" for message in messages), 5)


def _waiting(code: str, child: str = "") -> Reply:
    """Make a model whose root runs code; the other calls wait, and then run the code of a child."""

    async def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == "what?":
            return _block(code)
        await asyncio.sleep(CALL)
        return _block(child) if child else "read"

    return reply


def _running(search: Search, reply: Reply, text: Any = TEXT, **limits: Any) -> Callable[[], object]:
    model = ScriptedModel(reply=reply)
    within = SearchLimits(**{"small": 0, "max_turns": 200, "max_depth": 3, **limits})

    def run() -> None:
        settings = SearchSettings(fan_out_policy="run")
        answer = search.run("what?", text, model=model, limits=within, settings=settings)
        assert answer.state == "done", answer

    return run


def rows() -> Iterator[Row]:
    search = Search(lambda record: None)
    try:
        _running(search, _turns(1))()
        one_turn, eleven_turns = (_running(search, _turns(count)) for count in (1, 11))
        turn = (median(timed(eleven_turns, 25)) - median(timed(one_turn, 25))) / 10
        yield Row("a turn, the model at once", turn)
        bare = asyncio.run(_bare_turn())
        own_work = (_work(eleven_turns, 25) - _work(one_turn, 25)) / 10 - bare
        note = "the sandbox's, in this process"
        yield Row("of it the engine's own work", own_work, "<= 2 ms", bare, note)
        took = timed(_running(search, _turns(5)), 15)
        yield Row("a search of 5 turns, sandbox start included", took, "<= 40 ms")
        took = timed(lambda: rlm("what?", TEXT, model=_five_turns), 15)
        yield Row("the same by rlm() with a function, as the engines below have", took)
        for count, concurrency, reach in ((20, 20, "<= 75 ms"), (1_000, 16, "<= 2 x ideal")):
            code = f"FINAL(len(rlm_map('part', partition({count}))))"
            limits = {"max_depth": 1, "concurrency": concurrency, "max_calls": count + 2}
            took = timed(_running(search, _waiting(code), **limits), 3)
            ideal = -(-count // concurrency) * CALL * 1_000
            label = f"{count:,} sub-calls of 50 ms, {concurrency} at a time"
            yield Row(label, took, reach, ideal, "ideal")
        code = "FINAL(len(rlm_map('part', partition(8))))"
        child = "FINAL(len(context))"
        took = timed(_running(search, _waiting(code, child), concurrency=8), 7)
        label = "8 children with code, one call of 50 ms each"
        yield Row(label, took, "<= 150 ms", CALL * 1_000, "ideal")
        yield from _large(search)
    finally:
        search.close()
    yield from recursion_peers.rows(TEXT, CALL)


async def _bare_turn() -> float:
    sandboxes = open_sandboxes()
    try:
        sandbox = await sandboxes.start(SearchedText.root(TEXT), QuietNode())
        began = time.process_time()
        for turn in range(300):
            await sandbox.run(f"x{turn} = len(context)\nprint(x{turn})", 30.0)
        return (time.process_time() - began) * 1_000 / 300
    finally:
        await sandboxes.close()


def _work(run: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - began) * 1_000 / times


def _large(search: Search) -> Iterator[Row]:
    run = _running(search, _turns(1), TEXT * (100_000_000 // len(TEXT)))
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Row("100 MB, first turn", timed(run), "<= 1 s")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) / 1_024
    yield Row("100 MB, memory of the host beside it", grown, "<= 4 x in all", unit="MiB")
    yield Row("100 MB, the same text again", timed(run), "<= 300 ms")
