"""What a search without a screen prints: progress on stderr, and on stdout the answer or all
events."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from mahtab_tui.bus.masked_streams import MaskingFilter
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record, SearchChatStream, SearchRecord
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.cli.headless import (
    ANSWERED_CODE,
    FAILED_CODE,
    PARTIAL_CODE,
    json_line,
    write_stderr,
)
from mahtab_tui.search.logs import LogFile
from mahtab_tui.search.search import Search
from mahtab_tui.search.search_answers import SearchAnswer
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.system import start_thread

PROGRESS_INTERVAL_S = 0.1
LOG_INTERVAL_S = 10.0
"""Seconds between two progress lines: on a terminal, where the line is rewritten, and elsewhere."""
DEFAULT_COLUMNS = 80
"""The width of a terminal that does not tell its size."""


class Progress:
    """A progress line on stderr: rewritten on a terminal, printed occasionally elsewhere."""

    def __init__(self) -> None:
        self._tree = SearchTree("")
        self._lock = threading.Lock()  # the searching threads fold, the progress thread draws
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._start_time = time.monotonic()
        self._closed = threading.Event()
        self._thread = start_thread("progress", self._draw)

    def fold(self, record: Record) -> None:
        """Count an event of the search; a notice is printed at once. Any thread may call it."""
        if isinstance(record, Notice):
            self._write(plain(record.text), end="\n")
        else:
            with self._lock:
                self._tree.fold(record)

    def close(self) -> None:
        """Print the final state."""
        self._closed.set()
        self._thread.join()
        self._write(self._line(), end="\n")

    def _draw(self) -> None:
        interval_s = PROGRESS_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S
        while not self._closed.wait(interval_s):
            line = self._line()
            if self._is_terminal:
                # Of a line that wraps, only the last row would be rewritten.
                self._write(line[: _terminal_columns() - 1], end="")
            else:
                self._write(line, end="\n")

    def _line(self) -> str:
        """Return the state of the search, as in ``calls: 3 (1 running), model calls: 5, …``."""
        with self._lock:
            usage = self._tree.usage
            node_count = len(self._tree.nodes)
            counts = self._tree.counts
            running_count = counts.get("thinking", 0) + counts.get("running", 0)

        if usage.calls and usage.unpriced_calls == usage.calls:
            cost = "price unknown"
        else:
            at_least = "+" if usage.unpriced_calls else ""
            cost = f"${usage.cost:,.4f}{at_least}"
        seconds = time.monotonic() - self._start_time
        facts = (
            f"calls: {node_count:,} ({running_count:,} running)",
            f"model calls: {usage.calls:,}",
            f"tokens: {usage.tokens:,}",
            cost,
            f"{seconds:,.0f} s",
        )
        return ", ".join(facts)

    def _write(self, text: str, end: str) -> None:
        rewrite_line = "\r\x1b[K" if self._is_terminal else ""
        write_stderr(rewrite_line + text, end)


def _terminal_columns() -> int:
    """Return the width of the terminal that stderr is."""
    with contextlib.suppress(OSError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        return columns or DEFAULT_COLUMNS
    return DEFAULT_COLUMNS


class Stdout:
    """Writes answers to stdout until writing fails."""

    def __init__(self) -> None:
        self.failed = False
        """Whether nobody gets the output any more."""

    def write(self, line: str) -> None:
        """Print a line; if that fails, say so once."""
        if self.failed:
            return
        try:
            print(line, flush=True)
        except OSError as error:
            self.failed = True
            if not isinstance(error, BrokenPipeError):
                write_stderr(f"mahtab-tui: stdout cannot be written: {error.strerror}.")
            # At exit, the interpreter would flush stdout and report the error again.
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, sys.stdout.fileno())
            os.close(null_device)


class SearchReporter:
    """Shows a search: progress on stderr, the answer or all events on stdout, events in a log."""

    def __init__(self, secrets: Secrets, *, as_json: bool) -> None:
        """
        Args:
            secrets: Are masked in everything that is written.
            as_json: Print every event instead of the answer.
        """
        self.search: Search | None = None
        """Is stopped if nobody reads the events any more."""
        self.stdout = Stdout()
        self._progress = Progress()
        self._secrets = secrets
        self._masking = MaskingFilter(secrets)
        self._as_json = as_json
        self._log: LogFile | None = None

    def open_log(self, path: Path) -> bool:
        """Also write all events to a file. Return whether that is possible; if not, say so."""
        try:
            self._log = LogFile(path)
        except OSError as error:
            self.report(f"{path} cannot be written: {error.strerror}.")
            return False
        return True

    def send(self, record: Record) -> None:
        """Show an event."""
        masked = self._masking.mask_record(record)
        self._progress.fold(masked)
        if self._log is not None:
            self._log.write(masked)
        if self._as_json and not isinstance(masked, SearchChatStream):
            self._print_json(masked)

    def report(self, sentence: str) -> None:
        """Print a sentence to stderr, after the program's name."""
        write_stderr(f"mahtab-tui: {plain(self._secrets.mask(sentence))}")

    def report_error(self, error: Exception) -> None:
        """Print an error in the place of the progress line."""
        self._progress.fold(Notice(self._secrets.mask(f"mahtab-tui: {error}")))

    def print_answer(self, answer: SearchAnswer) -> int:
        """Print the answer, unless the events did; return the exit code."""
        if answer.state in ("error", "stopped"):
            if not self.stdout.failed:
                self.report(answer.text)
            return FAILED_CODE

        if not self._as_json:
            self.stdout.write(plain(self._secrets.mask(answer.text)))
        is_partial = answer.state == "partial"
        if is_partial:
            reason = answer.why.rstrip(".") or "the search ended early"
            self.report(f"{reason}; this answer is partial.")
        if self.stdout.failed:
            return FAILED_CODE
        return PARTIAL_CODE if is_partial else ANSWERED_CODE

    def close(self) -> None:
        """End the progress line and the log."""
        self._progress.close()
        if self._log is not None:
            self._log.close()
            if self._log.problem:
                self.report(self._log.problem)

    def _print_json(self, record: Record) -> None:
        self.stdout.write(json_line(record))
        if self.search is None or not self.stdout.failed:
            return
        # Nobody reads the output any more, so nobody needs the search.
        if isinstance(record, SearchRecord):
            self.search.stop(record.tree, "1")
