"""Prints the numbers to reach, beside bare baselines measured in the same run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import tests.benchmarks.detached as detached
import tests.benchmarks.inspector as inspector
import tests.benchmarks.jupyter as jupyter
import tests.benchmarks.kernel as kernel
import tests.benchmarks.knowledge as knowledge
import tests.benchmarks.mcp as mcp
import tests.benchmarks.recursion as recursion
import tests.benchmarks.remote as remote
import tests.benchmarks.sandbox as sandbox
import tests.benchmarks.saving as saving
import tests.benchmarks.screen as screen
import tests.benchmarks.sessions as sessions
import tests.benchmarks.transcript as transcript
import tests.benchmarks.undo as undo
from tests.benchmarks.table import Row, print_table

GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "kernel": kernel.rows,
    "undo": undo.rows,
    "saving": saving.rows,
    "detached": detached.rows,
    "jupyter": jupyter.rows,
    "remote": remote.rows,
    "inspector": inspector.rows,
    "transcript": transcript.rows,
    "screen": screen.rows,
    "sandbox": sandbox.rows,
    "recursion": recursion.rows,
    "mcp": mcp.rows,
    "knowledge": knowledge.rows,
    "sessions": sessions.rows,
}


def main() -> None:
    os.environ["MAHTAB_KEEP_KERNEL"] = "0"  # no program that is measured leaves its kernel behind
    # As for whoever has installed it: a start does not compile the package anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if sys.argv[1:2] == ["answers"]:  # needs a server with a model
        from tests.benchmarks.answers.run import main as ask_questions

        ask_questions(sys.argv[2:])
        return
    if sys.argv[1:2] == ["first_search"]:
        from tests.benchmarks.first_search import main as time_first_search

        time_first_search(sys.argv[2:])
        return
    if sys.argv[1:2] == ["searches"]:  # so do these
        from tests.benchmarks.searches import main as search

        search(sys.argv[2:])
        return
    wanted = sys.argv[1:] or list(GROUPS)
    if unknown := [name for name in wanted if name not in GROUPS]:
        raise SystemExit(
            f"There is no group {unknown[0]!r}. Groups: {', '.join(GROUPS)}, answers, searches, first_search."
        )
    print_table(row for name in wanted for row in GROUPS[name]())


main()
