"""Reuses the answers to questions that a tree has asked before."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence

from mahtab_tui.bus.records import SearchMemo
from mahtab_tui.sandbox.text import Text, TextRun, TextSpan
from mahtab_tui.search.events import Events
from mahtab_tui.search.live import LiveNode, NodeOutcome, NodeSource

_Question = tuple[str, str, bytes, bytes]
"""Model, kind, and digests of query and text, so that no text is held."""
_QUICK = 1_000_000
"""Characters whose digest takes about a millisecond; also how many are encoded at a time."""


class Memo:
    """The answers of one tree, and the questions that nodes are working on."""

    def __init__(self) -> None:
        self._answers: dict[_Question, tuple[str, NodeOutcome, list[TextRun]]] = {}
        """The answering node's id, its outcome, and where its text is from."""
        # A node waits only for a node of its own depth, or for a plain call, so that no two can
        # wait for each other.
        self._running: dict[
            tuple[_Question, int], tuple[LiveNode, asyncio.Future[NodeOutcome]]
        ] = {}

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]], events: Events
    ) -> NodeOutcome:
        """Return the answer of an equal node, also of one that still runs; otherwise do the work. A
        retry always does its own work."""
        if node.parent is None:
            return await work(node)
        question = (
            node.model.name,
            node.kind,
            hashlib.blake2b(node.query.encode("utf-8", "surrogatepass")).digest(),
            await _digest(node.source),
        )
        place = (question, -1 if node.kind == "llm" else node.depth)
        while not node.replaces:
            if question in self._answers:
                name, outcome, runs = self._answers[question]
            elif place in self._running:
                other, future = self._running[place]
                name, runs = other.id, other.source.runs
                outcome = await asyncio.shield(future)
            else:
                break
            if outcome.state != "stopped":  # if the other one was stopped, this one goes on
                events.send(SearchMemo(node=node.id, of_node=name))
                return outcome._replace(spans=_moved(outcome.spans, runs, node.source.runs))
        future = asyncio.get_running_loop().create_future()
        self._running[place] = (node, future)
        outcome = NodeOutcome("", "stopped")
        try:
            outcome = await work(node)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            outcome = NodeOutcome(str(error), "error")
            raise
        finally:
            if self._running.get(place) == (node, future):  # otherwise the node has been run again
                del self._running[place]
            future.set_result(outcome)
        if outcome.state == "done":
            self._answers[question] = (node.id, outcome, node.source.runs)
        return outcome


def _moved(spans: Sequence[TextSpan], old: list[TextRun], new: list[TextRun]) -> Sequence[TextSpan]:
    """Return spans of the root's text that are in one text as those of an equal text from
    elsewhere, as far as it is from the root's text."""
    if old == new:
        return spans
    inside = [
        (
            max(start, run.root) - run.root + run.start,
            min(end, run.root + run.length) - run.root + run.start,
        )
        for start, end in spans
        for run in old
    ]
    text = Text("", origin=tuple(new))
    return text.to_root([(start, end) for start, end in inside if start < end])


async def _digest(source: NodeSource) -> bytes:
    return (
        _digest_now(source)
        if source.chars <= _QUICK
        else await asyncio.to_thread(_digest_now, source)
    )


def _digest_now(source: NodeSource) -> bytes:
    """Compute the digest piece by piece: copies of all parts of a fan-out might not fit into
    memory."""
    digest = hashlib.blake2b(digest_size=16)
    text = source.text.text
    for number, (start, end) in enumerate(source.places or ((0, len(text)),)):
        if number:
            digest.update(b"\n")
        for place in range(start, end, _QUICK):
            digest.update(text[place : min(end, place + _QUICK)].encode("utf-8", "surrogatepass"))
    return digest.digest()
