"""Reads the texts that questions mention: files, folders, commands. Long texts are shortened to
head and tail."""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from mahtab_tui.bus.escaping import escape_output
from mahtab_tui.knowledge.encodings import (
    BinaryFile,
    decoded,
    mark_of,
    marked_encoding,
    single_byte_encoding,
)
from mahtab_tui.session.mentions import Mention
from mahtab_tui.system.processes import tie_to_parent

LONGEST = 60_000
"""Limit of one attachment, in characters; longer ones are shortened."""
COMMAND_SECONDS = 30.0
_BYTES = 4 * LONGEST
"""Bytes read of a file at most: more would be left out of the text anyway."""
_SEARCHED = 200_000_000
"""Bytes of a file that are searched for lines."""
_WIDEST = 4
"""Maximum bytes of a character."""
_WITHIN_CHARACTERS = bytes(range(0x80, 0xC0))
"""Bytes that never start a character in UTF-8."""
_OUTLINED = 300
"""Files of a folder that are listed at most."""
_LISTING_SECONDS = 5.0
_COUNTED = 5_000
"""Files of a folder that are counted at most."""


def size_of(count: int) -> str:
    """Format a number of bytes: ``980 B``, ``12.4 kB``, ``3.1 MB``."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file by a path without links. Raises `OSError`, also if a pipe or a link has replaced
    the file meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file")
        yield file


def read(path: Path, mention: Mention, size: str, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Return the text of a file, or of some lines, and its size in words. Raises `OSError` and
    `BinaryFile`."""
    with opened(path) as file:
        if mention.start is None:
            return _ends(file, os.fstat(file.fileno()).st_size), size
        end = None if mention.end is None else max(mention.start, mention.end)
        lines: list[bytes] = []
        room, rest = _BYTES, ""
        for line in itertools.islice(_lines(_as_utf8(file), stopped), mention.start - 1, end):
            lines.append(line[:room])
            room -= len(line)
            if room <= 0:
                rest = "\n[… the rest is left out]"
                break
    if not lines:
        return "[the file has no such lines]", "0 lines"
    data = b"".join(lines)
    text = _both_decoded(data, b"")[0] if rest else decoded(data)
    return shortened(text) + rest, f"{len(lines):,} line{'s' * (len(lines) != 1)}"


def _as_utf8(file: IO[bytes]) -> Callable[[int], bytes]:
    """Return a function that reads a line of at most so many bytes or characters.

    Files marked as UTF-16 or UTF-32, in which a newline byte need not end a line, are converted to
    UTF-8.
    """
    encoding = marked_encoding(file.read(4))
    file.seek(0)
    if encoding in (None, "utf-8-sig"):
        return file.readline
    text = io.TextIOWrapper(file, encoding, "replace", newline="\n")
    return lambda most: text.readline(most).encode()


def _lines(readline: Callable[[int], bytes], stopped: Callable[[], bool]) -> Iterator[bytes]:
    """Yield lines, each cut to `_BYTES`, however long it is. Raises `OSError` after `_SEARCHED`
    bytes, and if stopped."""
    whole = True
    searched = 0
    for piece in iter(lambda: readline(_BYTES), b""):
        searched += len(piece)
        if searched > _SEARCHED:
            raise OSError(0, f"lines are looked for in the first {size_of(_SEARCHED)} only")
        if stopped():
            raise OSError(0, "stopped")
        if whole:
            yield piece
        whole = piece.endswith(b"\n")


def _ends(file: IO[bytes], size: int) -> str:
    """Return the text of a file; head and tail if it is large."""
    if size <= _BYTES:
        return shortened(decoded(file.read(_BYTES)))
    head = file.read(_BYTES // 2)
    file.seek((size - _BYTES // 2) // _WIDEST * _WIDEST)
    tail = file.read(_BYTES // 2 + _WIDEST)
    between = f"\n[… {size - len(head) - len(tail):,} bytes left out …]\n"
    return shortened(between.join(_both_decoded(head, tail)))


def _both_decoded(head: bytes, tail: bytes) -> tuple[str, str]:
    """Decode both ends of a file in the same encoding, dropping characters that were cut. Raises
    `BinaryFile`."""
    if (mark := mark_of(head)) not in (b"", codecs.BOM_UTF8):
        return decoded(head), decoded(mark + tail)
    if b"\0" in head or b"\0" in tail:
        raise BinaryFile
    begun = len(tail) - len(tail.lstrip(_WITHIN_CHARACTERS))
    try:
        return _utf8(head.removeprefix(mark)), _utf8(tail[begun:] if begun < _WIDEST else tail)
    except UnicodeDecodeError:
        encoding = single_byte_encoding(head + tail)
        return head.decode(encoding), tail.decode(encoding)


def _utf8(data: bytes) -> str:
    """Decode data that may end within a character. Raises `UnicodeDecodeError`."""
    return codecs.getincrementaldecoder("utf-8")().decode(data)


def shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head, tail = LONGEST * 2 // 3, LONGEST // 3
    return f"{text[:head]}\n[… {len(text) - LONGEST:,} characters left out …]\n{text[-tail:]}"


def outline(folder: Path, stopped: Callable[[], bool]) -> tuple[str, str]:
    """List the source files below a folder with their sizes; returns the list and the number of
    files in words."""
    from mahtab_tui.knowledge.code import CodeError, list_files

    try:
        found, is_part = list_files(folder, _COUNTED, _LISTING_SECONDS, stopped)
    except CodeError as error:
        raise OSError(0, str(error)) from None
    lines, count = [], len(found)
    for path in found[:_OUTLINED]:
        try:
            lines.append(f"{path}  {size_of(os.stat(folder / path).st_size)}")
        except OSError:
            lines.append(path)
    if is_part:
        lines.append("[… listing the files took too long: there may be more]")
    more = f"{count - _OUTLINED:,}{' or more' if count == _COUNTED else ''}"
    return "\n".join(
        [*lines, *([f"… and {more} files more"] if count > _OUTLINED else [])]
    ) or "[no files]", f"{count:,} file{'s' * (count != 1)}"


def printed(command: str, cwd: str, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Run a command; returns its output and errors, and its exit code or size in words. When the
    time is up, it is killed with its children."""
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            tie_to_parent(["/bin/sh", "-c", command]),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ends_at, why = time.monotonic() + COMMAND_SECONDS, ""
        while not why:
            try:
                running.wait(0.05)
                break
            except subprocess.TimeoutExpired:
                if stopped():
                    why = "stopped"
                elif time.monotonic() > ends_at:
                    why = f"stopped after {COMMAND_SECONDS:.0f} s"
                elif output.seek(0, os.SEEK_END) > 50 * _BYTES:
                    why = "stopped: it prints too much"
        if why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(0)
        text = escape_output(_ends(output, size))
    ended = why or (f"exit code {running.returncode}" if running.returncode else "")
    return "\n".join(
        part for part in (text.rstrip("\n"), f"[{ended}]" if ended else "") if part
    ), ended or size_of(size)
