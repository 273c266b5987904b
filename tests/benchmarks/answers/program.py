"""The program itself: a session as in ``mahtab-tui ask --load FILE --approval auto``."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.session import Session
from mahtab_tui.session.data_files import inspect_files
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import LoopMode, load_settings
from tests.benchmarks.answers.outcome import Outcome
from tests.records import RecordList

_CODE = re.compile(r"```(?:python|py)\b.*?(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_SOURCES = ("agent", "reflection", "summary")
"""Model calls that belong to a question."""


def outcome_of(turn_records: Sequence[Record], *, is_first: bool = True) -> Outcome:
    """Sum up the records of a question. first: whether it is the first of its conversation."""
    outcome = Outcome(not_computed=0)
    show = outcome.transcript.append
    for record in turn_records:
        match record:
            case records.AssistantChat():
                show(("answer", record.text))
                outcome.not_computed = sum(not figure.has_source for figure in record.figures or ())
            case records.AssistantReplIn():
                outcome.codes.append(record.text)
                show(("code", record.text))
            case records.AssistantReplOut():
                show(("output", record.text))
            case records.Usage() if record.source in _SOURCES:
                outcome.calls += 1
                outcome.read += record.input_tokens
                outcome.written += record.output_tokens
                outcome.cached += record.cache_read_tokens
                if outcome.calls > 1 or not is_first:
                    outcome.later_read += record.input_tokens
                    outcome.later_cached += record.cache_read_tokens
            case records.Notice():
                show((record.level, record.text))
    return outcome


class SessionTalk:
    """Asks questions in one session."""

    def __init__(self, session: Session, collector: RecordList, seconds: float) -> None:
        self._session = session
        self._collector = collector
        self._seconds = seconds
        self._first = True

    def ask(self, question: str) -> Outcome:
        self._collector.records.clear()
        answer = failure = ""
        limit = threading.Timer(self._seconds, self._session.stop)
        limit.start()
        began = time.perf_counter()
        try:
            answer = self._session.agent.ask(question, attach=True)
        except Exception as error:  # a failure costs one answer, not the run
            failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        limit.cancel()
        outcome = outcome_of(self._collector.records, is_first=self._first)
        self._first = False
        outcome.answer = _CODE.sub("", answer).strip()
        outcome.seconds = seconds
        outcome.failure = failure or (
            f"stopped after {self._seconds:g} s" if seconds >= self._seconds else ""
        )
        return outcome


@contextlib.contextmanager
def open_session(
    url: str, model: str, seconds: float, files: Sequence[Path], *, loop: LoopMode = "auto"
) -> Iterator[SessionTalk]:
    """Open a session with a kernel in which each CSV file is a variable named after it."""
    settings = load_settings(
        model=f"openai:{model}",
        base_url=url,
        approval="auto",
        python=sys.executable,
        loop=loop,
        model_timeout=seconds,
    )
    session = Session(settings, process_kernel(settings), HeadlessFrontend())
    collector = RecordList()
    session.log.addHandler(collector)
    try:
        session.start_kernel()
        for file in inspect_files(files):
            if not session.cell_thread.load(file):
                raise SystemExit(f"{file.path} could not be loaded.")
        yield SessionTalk(session, collector, seconds)
    finally:
        session.close()
