"""``mahtab-tui rlm``: a search without a screen. Only the answer goes to stdout, progress to
stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus import codec
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import Notice, Record, SearchChatStream, SearchRecord
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.cli.ask import ANSWERED, FAILED, INTERRUPTED
from mahtab_tui.kernel.worker.contexts import ContextError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.search.tree import Tree

if TYPE_CHECKING:
    from mahtab_tui.llm.providers import MakeLLM
    from mahtab_tui.search.limits import Limits
    from mahtab_tui.search.log import Log
    from mahtab_tui.search.search import Search

WRONG_ARGUMENTS, PARTIAL = 2, 4

_EVERY = 0.1
"""Seconds between updates of the progress line at a terminal; a hundred times as long elsewhere."""


class Progress:
    """The progress line on stderr: rewritten at a terminal, printed now and then elsewhere."""

    def __init__(self) -> None:
        self._tree = Tree("")
        self._lock = threading.Lock()
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)
        self._thread.start()

    def fold(self, record: Record) -> None:
        if isinstance(record, Notice):
            self._write(plain(record.text), end="\n")
        else:
            with self._lock:
                self._tree.fold(record)

    def close(self) -> None:
        """Draw the line a last time."""
        self._ended.set()
        self._thread.join()
        self._write(self._line(), end="\n")

    def _draw(self) -> None:
        while not self._ended.wait(_EVERY if self._terminal else 100 * _EVERY):
            self._write(self._line(), end="" if self._terminal else "\n")

    def _line(self) -> str:
        with self._lock:
            used, nodes = self._tree.used, len(self._tree.nodes)
            alive = sum(
                count
                for state, count in self._tree.counts.items()
                if state in ("thinking", "running")
            )
        cost = (
            "price unknown"
            if used.calls and used.unpriced == used.calls
            else f"${used.cost:.4f}{'+' if used.unpriced else ''}"
        )
        seconds = time.monotonic() - self._began
        return f"{_count(nodes, 'call')} ({alive:,} running), {_count(used.calls, 'model call')}, {used.tokens:,} tokens, {cost}, {seconds:.0f} s"

    def _write(self, text: str, end: str) -> None:
        _tell(f"\r\x1b[K{text}" if self._terminal else text, end)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Stdout:
    """Writes answers to stdout until writing fails, because the reader has gone or the disk is
    full."""

    def __init__(self) -> None:
        self.failed = False

    def write(self, line: str) -> None:
        if self.failed:
            return
        try:
            print(line, flush=True)
        except OSError as error:
            self.failed = True
            if not isinstance(error, BrokenPipeError):
                _tell(f"mahtab-tui: stdout cannot be written: {error.strerror}.")
            # At exit the interpreter would flush stdout and report the error again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def search_once(
    query: str,
    source: str,
    *,
    model: str,
    sub_model: str | None,
    limits: Limits,
    log: Path | None,
    as_json: bool,
    yes: bool,
    make_llm: MakeLLM,
    secrets: Secrets,
) -> int:
    """Search a file, a folder, or what is piped in ("-"); print, and return the exit code.

    log: a file for the events. as_json: events go to stdout too, one a line, and the answer is the
    last of them. yes: run large fan-outs; otherwise they are refused, since nobody can be asked.
    secrets: never sent to a model, printed or stored.
    """
    from mahtab_tui.search.search import Search

    progress, stdout, masking = Progress(), Stdout(), MaskingFilter(secrets)
    takers: list[Callable[[Record], None]] = [progress.fold]
    kept: Log | None = None
    search: Search | None = None
    try:
        if log is not None:
            from mahtab_tui.search.log import Log

            try:
                kept = Log(log)
            except OSError as error:
                progress.fold(
                    Notice(secrets.mask(f"mahtab-tui: {log} cannot be written: {error.strerror}."))
                )
                return WRONG_ARGUMENTS
            takers.append(kept.write)
        search = Search(
            lambda record: _give(takers, masking.record(record)), make_llm=make_llm, secrets=secrets
        )
        if as_json:
            takers.append(partial(_print_json, stdout, search))
        context: Any = _piped_in() if source == "-" else Path(source)
        answer = search.run(
            query,
            context,
            model=model,
            sub_model=sub_model,
            limits=limits,
            asking="run" if yes else "refuse",
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ContextError, ModelError, SandboxError) as error:
        progress.fold(Notice(secrets.mask(f"mahtab-tui: {error}")))
        return FAILED if isinstance(error, SandboxError) else WRONG_ARGUMENTS
    finally:
        if search is not None:
            search.close()
        progress.close()
        if kept is not None:
            kept.close()
            if kept.trouble:
                _tell(f"mahtab-tui: {kept.trouble}")
    if answer.state in ("error", "stopped"):
        if not stdout.failed:
            _tell(f"mahtab-tui: {plain(secrets.mask(answer.text))}")
        return FAILED
    if not as_json:
        stdout.write(plain(secrets.mask(answer.text)))
    if answer.state == "partial":
        _tell(
            f"mahtab-tui: {plain(secrets.mask(answer.why)).rstrip('.') or 'the search ended early'}; this answer is partial."
        )
    return FAILED if stdout.failed else PARTIAL if answer.state == "partial" else ANSWERED


def _tell(text: str, end: str = "\n") -> None:
    """Write to stderr if possible; the answer does not depend on it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, end=end, file=sys.stderr, flush=True)


def _piped_in() -> bytes:
    """Read stdin. Raises `ContextError`."""
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise ContextError(f"stdin cannot be read: {error.strerror}.") from None


def _give(takers: Sequence[Callable[[Record], None]], record: Record) -> None:
    for take in takers:
        take(record)


def _print_json(stdout: Stdout, search: Search, record: Record) -> None:
    if not isinstance(record, SearchChatStream):
        stdout.write(json.dumps(codec.as_json(record.changed(time=round(record.time, 3)))))
        if stdout.failed and isinstance(record, SearchRecord):  # nobody reads the output
            search.stop(record.tree, "1")
