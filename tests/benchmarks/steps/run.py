"""Has a model do the tasks, checks what exists at the end, and records the model's replies if
asked."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mahtab_tui.bus.records import AssistantChat, Usage
from mahtab_tui.session import Session
from mahtab_tui.session.data_files import inspect_files
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import load_settings
from tests.benchmarks.steps.tasks import TASKS, Task
from tests.records import RecordList

_MAX_PROBLEM_CHARS = 200
"""Characters at the end of a problem that are printed."""


@dataclass(frozen=True)
class PlayedTask:
    """What came of a task."""

    problem: str
    """Why the task is not done; empty if it is."""
    answer: str
    replies: Sequence[str]
    """The model's replies, in order."""
    read_tokens: int
    written_tokens: int


@contextlib.contextmanager
def _working_folder(folder: Path) -> Iterator[None]:
    previous_folder = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(previous_folder)


def play(task: Task, folder: Path, model: str, base_url: str | None = None) -> PlayedTask:
    """Have a model do a task in a folder of its own, in a session without a screen."""
    task.write_files(folder)
    with _working_folder(folder):
        settings = load_settings(
            model=model, base_url=base_url, approval="auto", python=sys.executable
        )
        session = Session(settings, process_kernel(settings), HeadlessFrontend())
        collector = RecordList()
        session.log.addHandler(collector)
        try:
            session.start_kernel()
            for file in inspect_files([folder / name for name in task.loaded]):
                session.cell_thread.load(file)
            answer = session.agent.ask(task.question, attach=True)
            check_result = session.cells.run(task.check)
        finally:
            session.close()
    usages = [record for record in collector.records if isinstance(record, Usage)]
    return PlayedTask(
        problem="" if check_result.status == "ok" else check_result.output.strip(),
        answer=answer,
        replies=[record.text for record in collector.records if isinstance(record, AssistantChat)],
        read_tokens=sum(usage.input_tokens for usage in usages),
        written_tokens=sum(usage.output_tokens for usage in usages),
    )


def _report_line(task: Task, outcome: PlayedTask) -> str:
    status = "NOT DONE" if outcome.problem else "done"
    return (
        f"{status:<9}{task.name:<16}"
        f"{len(outcome.replies):>3} replies {outcome.read_tokens:>8,} read"
        f" {outcome.written_tokens:>7,} written  {outcome.problem[-_MAX_PROBLEM_CHARS:]}"
    )


def _record(task: Task, outcome: PlayedTask, folder: Path) -> None:
    lines = [json.dumps({"text": reply}, ensure_ascii=False) for reply in outcome.replies]
    file = folder / f"{task.name.replace(' ', '_')}.jsonl"
    file.write_text("\n".join(lines) + "\n", "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Play the tasks, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks steps")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", default="hand", help="the model's name (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="keep the replies there")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OPENAI_API_KEY", "none")
    # Tasks change the working directory.
    record_folder = options.record.absolute() if options.record else None

    done = 0
    tasks = [task for task in TASKS if not options.only or task.name in options.only]
    for task in tasks:
        with tempfile.TemporaryDirectory() as folder:
            outcome = play(task, Path(folder), f"openai:{options.model}", options.url)
        print(_report_line(task, outcome), flush=True)
        if outcome.problem:
            continue
        done += 1
        if record_folder is not None:
            _record(task, outcome, record_folder)
    print(f"{done} of {len(tasks)} done")
