"""Asks a real model all questions."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from mahtab_tui import __version__
from tests.benchmarks.answers import report
from tests.benchmarks.answers.baseline import Baseline
from tests.benchmarks.answers.dabench import dabench_items
from tests.benchmarks.answers.items import (
    DEVELOP,
    FRESH,
    HIDDEN_SETS,
    JUDGE,
    Item,
    items_of,
    select,
)
from tests.benchmarks.answers.outcome import Talk
from tests.benchmarks.answers.program import open_session
from tests.benchmarks.answers.questions import KINDS
from tests.benchmarks.answers.report import ScoredOutcome

PROGRAMS: dict[str, Callable[[str, str, float, Sequence[Path]], AbstractContextManager[Talk]]] = {
    "baseline": lambda *given: nullcontext(Baseline(*given)),
    "mahtab-tui": open_session,
    "steps": partial(open_session, loop="steps"),
}
"""Begin a conversation, given the address, the model, the seconds for an answer, and the files."""
DEFAULT_PROGRAMS = ("baseline", "mahtab-tui")

_PERSONAL = tuple(
    "MAHTAB_ ANTHROPIC_ CLAUDE OPENAI_ OPENROUTER_ OTEL_ LANGSMITH_ XDG_ PYTHONSTARTUP".split()
)
"""Beginnings of the names of variables with a person's own set-up."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks answers", description="Judge answers with a real model."
    )
    add = parser.add_argument
    server = "an OpenAI-compatible server (default: %(default)s)"
    add("--url", default="http://127.0.0.1:8080/v1", help=server)
    add("--model", help="the model's name there (default: the first that it lists)")
    program = "ask only this one; steps is mahtab-tui with loop=steps"
    add("--program", choices=list(PROGRAMS), help=program)
    kinds = f"only questions of a kind: {', '.join(KINDS)}; of DABench easy, medium, hard"
    add("--kind", default="", help=kinds)
    only = "only this question; may be repeated"
    add("--only", action="append", default=[], metavar="NAME", help=only)
    add("--limit", type=int, metavar="N", help="only the first N of them")
    seconds = "most seconds for a question (default: %(default)g)"
    add("--seconds", type=float, default=300.0, help=seconds)
    dabench = "InfiAgent-DABench's questions from examples/DA-Agent/data"
    add("--dabench", type=Path, metavar="FOLDER", help=dabench)
    every_help = "every Nth question of DABench (default: %(default)s)"
    add("--every", type=int, default=8, metavar="N", help=every_help)
    half = (
        "only the half to develop with, that to judge by, or a fresh third set to judge by; "
        "the texts of the last two are neither printed nor saved"
    )
    add("--half", choices=[DEVELOP, JUDGE, FRESH], help=half)
    server_pid = "the server's process, whose memory is then in the row for the manual"
    add("--server-pid", type=int, metavar="PID", help=server_pid)
    add("--verbose", action="store_true", help="print questions and answers")
    add("--json", type=Path, metavar="FILE", help="write all rows with code and answers")
    compare = "say what has changed since a run that was written with --json"
    add("--compare", type=Path, metavar="FILE", help=compare)
    return parser


class NoServer(Exception):
    """No server answers."""


def find_model(url: str, model: str | None = None) -> str:
    """Return the model's name, by default the first that the server lists."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=60) as reply:
            return model or str(json.load(reply)["data"][0]["id"])
    except (OSError, ValueError, LookupError) as error:
        raise NoServer(
            f"No OpenAI-compatible server answers at {url} ({error}); start one, for instance with "
            "`llama-server -m model.gguf --port 8080`, and name it with --url."
        ) from None


def _isolate(folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith(_PERSONAL)]:
        del os.environ[name]
    for name in ("home", "work"):
        (folder / name).mkdir()
    os.environ.update(HOME=str(folder / "home"), MAHTAB_KEEP_KERNEL="0", NO_COLOR="1")
    os.chdir(folder / "work")


def ask_all(
    program: str, conversations: Sequence[Sequence[Item]], url: str, model: str, seconds: float
) -> Iterator[ScoredOutcome]:
    """Ask all questions, each conversation in a session of its own."""
    for conversation in conversations:
        with PROGRAMS[program](url, model, seconds, conversation[0].files) as talk:
            for item in conversation:
                outcome = talk.ask(item.text)
                if outcome.failure:
                    find_model(url)
                yield report.make_row(program, item, outcome)


def _ask_programs(
    options: argparse.Namespace, model: str, folder: Path, rows: list[ScoredOutcome]
) -> None:
    work = folder / "work"
    skipped = 0
    if options.dabench is None:
        candidates = items_of(options.half, work)
    else:
        candidates, skipped = dabench_items(options.dabench, options.every, work, options.half)
    is_hidden = options.half in HIDDEN_SETS
    conversations = select(candidates, kind=options.kind, only=options.only, limit=options.limit)
    if not conversations:
        raise ValueError("no question is chosen")
    if skipped:
        print(f"{skipped} questions are skipped, because their tables are missing.")
    # Not in turns, because they would push each other out of the server's cache.
    for name in [options.program] if options.program else DEFAULT_PROGRAMS:
        for row in ask_all(name, conversations, options.url, model, options.seconds):
            rows.append(row)
            if is_hidden:
                print(f"{name}: {len(rows)} questions asked", flush=True)
            else:
                report.print_row(row, verbose=options.verbose)
            if options.json is not None:
                # After each answer, because a run takes long and may end early.
                saved = map(report.without_texts, rows) if is_hidden else rows
                report.save(list(saved), options.json)


def _row_for_manual(options: argparse.Namespace, model: str, rows: Sequence[ScoredOutcome]) -> str:
    questions = "own" if options.dabench is None else "DABench"
    if options.half == FRESH:
        questions += ", fresh"
    elif options.half is not None:
        questions += f", half to {options.half}"
    memory = "-"
    if options.server_pid is not None:
        command = ["ps", "-o", "rss=", "-p", str(options.server_pid)]
        resident_kib = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        if resident_kib:
            memory = f"{int(resident_kib) / 1024:,.0f} MiB"
    return report.manual_row(
        rows,
        # A server may list the path of a file.
        model=model.rpartition("/")[2],
        questions=questions,
        memory=memory,
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        date=f"{datetime.date.today()}, {__version__}",
    )


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    options.url = options.url.rstrip("/")
    for name in ("dabench", "json", "compare"):
        if path := getattr(options, name):
            setattr(options, name, path.absolute())
    rows: list[ScoredOutcome] = []
    starting_folder = Path.cwd()
    problem = ""
    try:
        model = find_model(options.url, options.model)
        earlier = report.load(options.compare) if options.compare else []
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            _isolate(Path(folder))
            _ask_programs(options, model, Path(folder), rows)
    except NoServer as error:
        problem = str(error)
    except KeyboardInterrupt:
        problem = "Interrupted."
    except (OSError, ValueError) as error:
        problem = f"The benchmark cannot run: {error}"
    finally:
        os.chdir(starting_folder)
    if rows:
        print(f"\n{model} at {options.url}")
        report.print_report(rows)
        report.print_changes(earlier, rows, with_answers=options.half not in HIDDEN_SETS)
        print("\nFor the manual (mahtab_tui/manual/local.md), with what graphics card there is:")
        print(_row_for_manual(options, model, rows))
    if problem:
        print(problem, file=sys.stderr)
        raise SystemExit(2)
