"""Streams on descriptors 1 and 2, and the output limit of a model's cells."""

from __future__ import annotations

import contextlib
import io
from typing import TextIO

MAX_OUTPUT_CHARS = 10_000


class OutputLimitError(RuntimeError):
    __module__ = "builtins"  # so that tracebacks name it without the path of this file

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"more than {limit:,} characters were printed; the rest was not shown. Print less: slice the value, or "
            "look at it with peek(text, n) or grep(text, pattern)."
        )


class LimitedOutput(io.TextIOBase):
    """A text stream that raises `OutputLimitError` after `limit` characters. Without a `stream` it
    keeps the text. `sharing` makes two streams count together."""

    def __init__(
        self,
        stream: TextIO | None = None,
        limit: int = MAX_OUTPUT_CHARS,
        sharing: LimitedOutput | None = None,
    ) -> None:
        super().__init__()
        self._stream: TextIO = io.StringIO() if stream is None else stream
        self.limit = limit
        self._counter: LimitedOutput = self if sharing is None else sharing._counter
        self._left = limit

    def take(self, text: str) -> str:
        head = text[: self._counter._left]
        self._counter._left -= len(head)
        return head

    def write(self, text: str) -> int:
        head = self.take(text)
        self._stream.write(head)
        if len(head) < len(text):
            raise OutputLimitError(self.limit)
        return len(text)

    def getvalue(self) -> str:
        if not isinstance(self._stream, io.StringIO):
            raise io.UnsupportedOperation("the text went to another stream")
        return self._stream.getvalue()

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def fileno(self) -> int:
        return self._stream.fileno()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def open_stdout(fd: int) -> io.TextIOWrapper:
    """Block-buffered in C, because a write per print costs twenty times as much."""
    return io.TextIOWrapper(_open(fd), "utf-8", "backslashreplace", "\n")


def _open(fd: int) -> io.BufferedWriter:
    return io.BufferedWriter(io.FileIO(fd, "w", closefd=False))


class ErrorStream(io.TextIOWrapper):
    """Flushes stdout before each write, so that the output stays in order."""

    def __init__(self, fd: int, stdout: TextIO) -> None:
        super().__init__(_open(fd), "utf-8", "backslashreplace", "\n")
        self._stdout = stdout

    def write(self, text: str) -> int:
        if not self._stdout.closed:
            self._stdout.flush()
        count = super().write(text)
        self.flush()
        return count


def flush(*streams: TextIO | None) -> None:
    for stream in streams:
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()


def shorten(text: str, keep: int) -> str:
    if len(text) <= 2 * keep:
        return text
    return f"{text[:keep]}{omission(len(text) - 2 * keep)}{text[len(text) - keep :]}"


def omission(count: int) -> str:
    return f"\n… {count:,} characters left out …\n"
