"""Has a model answer the questions of each conversation, and counts the right answers."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mahtab_tui.bus.records import AssistantChat, Usage
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session import Session
from mahtab_tui.session.data_files import inspect_files
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import load_settings
from tests.benchmarks.answers.scoring import Number
from tests.benchmarks.answers.tables import write_tables
from tests.benchmarks.long.conversations import CONVERSATIONS
from tests.benchmarks.long.questions import DECIMALS, PATTERNS, Conversation, PatternQuestion
from tests.records import RecordList

_GROUP_POSITIONS = 5
"""Positions that are counted together: the first five, the next five, the last five."""


@dataclass(frozen=True)
class AnsweredQuestion:
    question: PatternQuestion
    text: str
    replies: int
    """How many replies of the model it took."""

    @property
    def status(self) -> str:
        if is_right(self.question, self.text):
            return "right"
        is_stale = self.question.stale is not None and _states(self.question.stale, self.text)
        return "STALE" if is_stale else "WRONG"


@dataclass(frozen=True)
class PlayedConversation:
    """What came of a conversation."""

    answers: Sequence[AnsweredQuestion]
    replies: Sequence[str]
    """The model's replies, in order."""
    read_tokens: int
    cached_tokens: int
    """Tokens that the server had read before, if it says so."""
    written_tokens: int


def is_right(question: PatternQuestion, answer: str) -> bool:
    return _states(question.truth, answer)


def _states(value: float | str, answer: str) -> bool:
    if isinstance(value, str):
        return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", answer) is not None
    return Number(DECIMALS).states(answer, value, {})


def play(
    conversation: Conversation, folder: Path, model: str, base_url: str | None
) -> PlayedConversation:
    """Have a model answer the questions of a conversation in one session without a screen."""
    [file] = write_tables([conversation.table], folder)
    questions = conversation.questions(pd.read_csv(file))
    settings = load_settings(model=model, base_url=base_url, approval="auto", python=sys.executable)
    session = Session(settings, process_kernel(settings), HeadlessFrontend())
    collector = RecordList()
    session.log.addHandler(collector)
    answers: list[AnsweredQuestion] = []
    try:
        session.start_kernel()
        for loaded in inspect_files([file]):
            session.cell_thread.load(loaded)
        for question in questions:
            replies_before = len(_replies(collector))
            try:
                text = session.agent.ask(question.text, attach=True)
            except ModelError as error:
                text = f"[{error}]"
            answers.append(
                AnsweredQuestion(question, text, len(_replies(collector)) - replies_before)
            )
            print(f"  {answers[-1].status:<6} {question.pattern:<10} {question.text}", flush=True)
    finally:
        session.close()
    usages = [record for record in collector.records if isinstance(record, Usage)]
    return PlayedConversation(
        answers,
        _replies(collector),
        read_tokens=sum(usage.input_tokens for usage in usages),
        cached_tokens=sum(usage.cache_read_tokens for usage in usages),
        written_tokens=sum(usage.output_tokens for usage in usages),
    )


def _replies(collector: RecordList) -> list[str]:
    return [record.text for record in collector.records if isinstance(record, AssistantChat)]


def _count_right(answers: Sequence[AnsweredQuestion]) -> str:
    right = sum(answer.status == "right" for answer in answers)
    stale = sum(answer.status == "STALE" for answer in answers)
    note = f" ({stale} outdated)" if stale else ""
    return f"{right} of {len(answers)}{note}"


def _print_report(plays: Sequence[PlayedConversation]) -> None:
    answers = [answer for outcome in plays for answer in outcome.answers]
    print(f"\nright: {_count_right(answers)}")
    longest = max((len(outcome.answers) for outcome in plays), default=0)
    for start in range(0, longest, _GROUP_POSITIONS):
        group = [a for outcome in plays for a in outcome.answers[start : start + _GROUP_POSITIONS]]
        print(f"  questions {start + 1} to {start + _GROUP_POSITIONS}: {_count_right(group)}")
    for pattern in PATTERNS:
        group = [answer for answer in answers if answer.question.pattern == pattern]
        print(f"  {pattern}: {_count_right(group)}")


def main(arguments: Sequence[str]) -> None:
    """Play the conversations, and print which answers were right, by position and by pattern."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks long")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", default="hand", help="the model's name (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="keep the replies there")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OPENAI_API_KEY", "none")
    # Each conversation has a working directory of its own.
    record_folder = options.record.absolute() if options.record else None

    plays: list[PlayedConversation] = []
    for conversation in CONVERSATIONS:
        if options.only and conversation.name not in options.only:
            continue
        print(conversation.name, flush=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            outcome = play(conversation, Path(folder), f"openai:{options.model}", options.url)
        plays.append(outcome)
        print(
            f"  {_count_right(outcome.answers)} right, {len(outcome.replies)} replies,"
            f" {outcome.read_tokens:,} tokens read ({outcome.cached_tokens:,} cached),"
            f" {outcome.written_tokens:,} written",
            flush=True,
        )
        if record_folder is not None:
            lines = [json.dumps({"text": text}, ensure_ascii=False) for text in outcome.replies]
            file = record_folder / f"{conversation.name}.jsonl"
            file.write_text("\n".join(lines) + "\n", "utf-8")
    _print_report(plays)
