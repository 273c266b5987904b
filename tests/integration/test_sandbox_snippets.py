"""Ordinary Python, as models write it in a search, runs in the real sandbox."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from mahtab_tui.sandbox.base import Sandboxes
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from tests.integration.sandboxes import RecordingNode, run

_USERS = ("ada", "bob", "eve")


def text() -> str:
    log = []
    for n in range(200):
        time = f"2026-03-01T{n // 40 + 10:02d}:{n * 3 // 60 % 60:02d}:{n * 3 % 60:02d}"
        if n % 17 == 5:
            log.append(f"{time} ERROR disk full on /dev/sd{'abc'[n % 3]}")
        elif n % 17 == 6:
            log.append(f"{time} ERROR request id=r{n} timeout after 30000 ms user={_USERS[n % 3]}")
        elif n % 13 == 0:
            log.append(f"{time} WARN  queue length {n}")
        else:
            log.append(f"{time} INFO  request id=r{n} took {n * 37 % 901} ms user={_USERS[n % 3]}")
    records = [
        '{"id": 1, "amount": 12.5}',
        '{"id": 2, "amount": 7.25, "tags": ["a"]}',
        '{"id": 3, "amount":',
    ]
    table = ["id,name,city", "1,Ada,London", '2,"Byron, Lord",Athens', "", "That is all."]
    return "\n".join([*log, *records, *table]) + "\n"


class Snippet(NamedTuple):
    name: str
    python: tuple[int, int]
    turns: list[str]
    prints: str


def snippets() -> Iterator[Snippet]:
    source = Path(__file__).with_name("sandbox_snippets.txt").read_text()
    for section in source.split("\n=== ")[1:]:
        title, body = section.split("\n", 1)
        code, prints = body.split("--- prints\n")
        needs = re.search(r" \((\d+)\.(\d+)\)$", title)
        python = (int(needs[1]), int(needs[2])) if needs else (3, 9)
        yield Snippet(title, python, code.split("--- then\n"), prints.rstrip("\n"))


SNIPPETS = list(snippets())


async def answers(name: str, args: dict[str, Any]) -> Any:
    """Answer with the query and the length of the part; fail if the query says so."""
    replies = []
    for part in args["parts"]:
        start, end = part.get("span") or (0, len(part["text"]))
        text = f"{args['query']} ({end - start})"
        replies.append({"text": text, "failed": "fail" in args["query"]})
    return {"answers": replies}


async def play(sandboxes: Sandboxes, snippet: Snippet) -> str:
    node = RecordingNode()
    node.answer = answers
    sandbox = await sandboxes.start(SearchedText.root(text()), node)
    try:
        printed = "".join([(await run(sandbox, code)).output for code in snippet.turns])
    finally:
        await sandbox.close()
    lines = (printed + "".join(f"FINAL: {final}\n" for final in node.finals)).split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandboxes() -> AsyncIterator[Sandboxes]:
    opened_sandboxes = open_sandboxes()
    yield opened_sandboxes
    await opened_sandboxes.close()


def test_the_corpus_is_large() -> None:
    assert len(SNIPPETS) >= 60
    assert len({snippet.name for snippet in SNIPPETS}) == len(SNIPPETS)


@pytest.mark.sample(20)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("snippet", SNIPPETS, ids=[snippet.name for snippet in SNIPPETS])
async def test_ordinary_python_runs(sandboxes: Sandboxes, snippet: Snippet) -> None:
    if sys.version_info < snippet.python:
        pytest.skip(f"needs Python {snippet.python}")
    assert await play(sandboxes, snippet) == snippet.prints
