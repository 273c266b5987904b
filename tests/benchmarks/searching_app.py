"""The application while a search of 1,000 live calls streams into it."""

from __future__ import annotations

import itertools
import logging
import threading
import time

from mahtab_tui.bus.records import Record, emit
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import home_folder, load_settings
from mahtab_tui.store.input_history import History
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_app import Collector
from mahtab_tui.tui.terminal_driver import StdioRedirect
from tests import tags
from tests.tui.search_records import Scribe

BRANCHES = 40
LEAVES = 25
"""Their calls never end; others begin and end meanwhile, with 1,000 events a second."""


def grow(log: logging.Logger) -> None:
    """Log a root with 40 calls of 25 each, every other one a fan-out; then words from all of them
    in turn, and calls that come and go."""
    scribe = Scribe("t")

    def log_record(record: Record) -> None:
        emit(log, record.changed(time=time.time()))

    def begin(node: str, start: int, end: int, **attrs: object) -> None:
        about = {"spans": [[start, end]], "chars": end - start, "model": "m", **attrs}
        log_record(scribe.begin(node, "What is here?", **about))
        log_record(scribe.call(node, "turn", turn=1, turns=10))

    chars = 20_000_000
    begin("1", 0, chars)
    part_chars = chars // BRANCHES
    nodes = []
    for branch in range(BRANCHES):
        start = branch * part_chars
        of = 10 if branch < 10 else 1
        begin(f"1.{branch + 1}", start, start + part_chars, batch=1, index=branch % 10, of=of)
        for leaf in range(LEAVES):
            node = f"1.{branch + 1}.{leaf + 1}"
            nodes.append(node)
            batch_values = (2, leaf, LEAVES) if branch % 2 else (leaf + 2, 0, 1)
            batch = dict(zip(("batch", "index", "of"), batch_values, strict=True))
            begin(node, start + leaf * 1000, start + leaf * 1000 + 900, **batch)
    for number in itertools.count():
        words = f"words {number} that come and go\n"
        for offset in range(8):
            node = nodes[(number * 8 + offset) % len(nodes)]
            log_record(scribe.event(tags.RLM_CHAT_STREAM, node, words, turn=1))
        passing = f"1.1.{len(nodes) + number}"
        begin(passing, 0, 900, batch=len(nodes) + number, index=0, of=1)
        log_record(scribe.final(passing, "an answer", duration=0.1, spans=[]))
        time.sleep(0.01)


class SearchingApp(MahtabApp):
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
