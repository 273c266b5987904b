"""The application while a search of 1,000 live calls streams into it."""

from __future__ import annotations

import itertools
import logging
import threading
import time

from mahtab_tui.bus.records import emit
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import home_folder, load_settings
from mahtab_tui.store.database import History
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_app import Collector
from mahtab_tui.tui.terminal_driver import StdioRedirect
from tests import tags
from tests.records import made

LIVE = 1_000
"""Calls that are never finished; as many more begin and end meanwhile."""
RATE = 1_000
"""Events a second, most of them pieces of answers."""
BRANCHES = 40


def grow(log: logging.Logger) -> None:
    """A root with 40 calls of 25 each, one of which is a fan-out; then words from all of them in
    turn, and calls that come and go."""
    seq = itertools.count()

    def log_event(tag: str, node: str, text: str = "", /, **attrs: object) -> None:
        about = {"tree": "t", "node": node, **attrs}
        if not tag.endswith("-stream"):
            about["seq"] = next(seq)
        record = made(tag, text, about, time.time())
        emit(log, record)

    def begin(node: str, start: int, end: int, **attrs: object) -> None:
        parent = node.rpartition(".")[0] or None
        spans = [[start, end]]
        log_event(
            tags.RLM_CALL,
            node,
            "What is here?",
            event="begin",
            parent=parent,
            kind="rlm",
            spans=spans,
            chars=end - start,
            model="m",
            **attrs,
        )
        log_event(tags.RLM_CALL, node, event="turn", turn=1, turns=10)

    chars = 20_000_000
    begin("1", 0, chars)
    part = chars // BRANCHES
    nodes = []
    for branch in range(BRANCHES):
        begin(
            f"1.{branch + 1}",
            branch * part,
            (branch + 1) * part,
            batch=1,
            index=branch % 10,
            of=10 if branch < 10 else 1,
        )
        for leaf in range(LIVE // BRANCHES):
            node = f"1.{branch + 1}.{leaf + 1}"
            nodes.append(node)
            many = (
                {"batch": 2, "index": leaf, "of": LIVE // BRANCHES}
                if branch % 2
                else {"batch": leaf + 2, "index": 0, "of": 1}
            )
            begin(node, branch * part + leaf * 1000, branch * part + leaf * 1000 + 900, **many)
    pause = 10 / RATE
    for number in itertools.count():
        for offset in range(8):
            log_event(
                tags.RLM_CHAT_STREAM,
                nodes[(number * 8 + offset) % LIVE],
                f"words {number} that come and go\n",
                turn=1,
            )
        passing = f"1.1.{LIVE + number}"
        begin(passing, 0, 900, batch=LIVE + number, index=0, of=1)
        log_event(tags.RLM_FINAL, passing, "an answer", state="done", duration=0.1, spans=[])
        time.sleep(pause)


class SearchingApp(MahtabApp):
    """Begins the search once the panes are there."""

    def on_ready(self) -> None:
        threading.Thread(target=grow, args=(self.session.log,), name="search", daemon=True).start()


def main() -> None:
    collector = Collector()
    session = Session(
        load_settings(model="demo"), ProcessKernel(), HeadlessFrontend(), name="benchmark"
    )
    history = History(home_folder() / "history.db", "benchmark")
    with StdioRedirect(lambda text: None) as guard:
        SearchingApp(session, guard, history, collector=collector).run()
    session.close()


if __name__ == "__main__":
    main()
