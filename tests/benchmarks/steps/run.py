"""Has a model do the tasks, checks what exists at the end, and may record its answers."""

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
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.session.loading import inspect_files
from mahtab_tui.settings.model import load_settings
from tests.benchmarks.steps.tasks import TASKS, Task
from tests.records import RecordList


@dataclass(frozen=True)
class Play:
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
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def play(task: Task, folder: Path, model: str, base_url: str | None = None) -> Play:
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
            checked = session.cells.run(task.check)
        finally:
            session.close()
    usages = [record for record in collector.records if isinstance(record, Usage)]
    return Play(
        problem="" if checked.status == "ok" else checked.output.strip(),
        answer=answer,
        replies=[record.text for record in collector.records if isinstance(record, AssistantChat)],
        read_tokens=sum(usage.input_tokens for usage in usages),
        written_tokens=sum(usage.output_tokens for usage in usages),
    )


def main(arguments: Sequence[str]) -> None:
    """Play the tasks, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks steps")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", default="hand", help="the model's name (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="keep the replies there")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OPENAI_API_KEY", "none")
    record_folder = options.record.absolute() if options.record else None
    done = 0
    tasks = [task for task in TASKS if not options.only or task.name in options.only]
    for task in tasks:
        with tempfile.TemporaryDirectory() as folder:
            outcome = play(task, Path(folder), f"openai:{options.model}", options.url)
        done += not outcome.problem
        print(
            f"{'done' if not outcome.problem else 'NOT DONE':<9}{task.name:<16}"
            f"{len(outcome.replies):>3} replies {outcome.read_tokens:>8,} read"
            f" {outcome.written_tokens:>7,} written  {outcome.problem[-200:]}",
            flush=True,
        )
        if record_folder is not None and not outcome.problem:
            lines = [json.dumps({"text": reply}, ensure_ascii=False) for reply in outcome.replies]
            file = record_folder / f"{task.name.replace(' ', '_')}.jsonl"
            file.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{done} of {len(tasks)} done")
