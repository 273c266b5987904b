"""Attachments of a question: files, folders, variables, pictures, and output of commands."""

from __future__ import annotations

import base64
import io
import itertools
import os
import re
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal, NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.prompt import to_xml
from mahtab_tui.bus.records import UserAttachment
from mahtab_tui.bus.terminal_screen import escape_output
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.values import Completions
from mahtab_tui.knowledge.code import CodeError, list_files
from mahtab_tui.knowledge.confined_folder import BinaryFile, byte_order_mark
from mahtab_tui.llm.pictures import (
    HEAD,
    LARGEST_FILE,
    MOST,
    EncodedPicture,
    PictureError,
    is_picture,
    scale_picture,
    size_from_head,
)
from mahtab_tui.session.loading import HEAD_BYTES, guess_encoding
from mahtab_tui.session.variables import PrivateNames
from mahtab_tui.system import tie_to_parent

# Mentions in a question

_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"(?P<quoted_range>:[0-9]{1,9}(?:-[0-9]{0,9})?(?![0-9]))?
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
      | !`(?P<command>[^`\n]+)`
    )""",
    re.VERBOSE,
)
_RANGE = re.compile(r":([0-9]{1,9})(?:-([0-9]{0,9}))?$")
_UNQUOTED = re.compile(r"""[^\s"'`:]*[^\s"'`:.,;!?)\]}>]""")
_BEGUN = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CLOSING = ".,;:!?)]}>"
LINES, CHARACTERS = 50, 10_000
_LONGEST_PARTIAL = 1_000
"""Characters before the cursor to search for the start of a mention."""


class Mention(NamedTuple):
    kind: Literal["path", "variable", "command"]
    name: str
    start: int | None = None
    end: int | None = None
    """First and last line of a file, from 1."""

    @property
    def label(self) -> str:
        if self.kind == "variable":
            return f"${self.name}"
        if self.kind == "command":
            return f"!`{self.name}`"
        name = self.name if _UNQUOTED.fullmatch(self.name) else f'"{self.name}"'
        if self.start is None:
            return f"@{name}"
        end = "" if self.end == self.start else f"-{'' if self.end is None else self.end}"
        return f"@{name}:{self.start}{end}"


def find_mentions(question: str) -> list[Mention]:
    """Return the mentions in order, without duplicates. They need not exist: an ``@`` may also be a
    decorator."""
    return list(dict.fromkeys(_iter_mentions(question)))


def _iter_mentions(question: str) -> Iterator[Mention]:
    for found in _MENTION.finditer(question):
        if found["name"]:
            yield Mention("variable", found["name"])
        elif found["command"]:
            if command := found["command"].strip():
                yield Mention("command", command)
        elif found["quoted"]:
            yield _path_mention(found["quoted"], found["quoted_range"] or "")
        elif path := found["path"].rstrip(_CLOSING):
            lines = _RANGE.search(path)
            start = lines.start() if lines else 0
            yield _path_mention(path[:start], path[start:]) if start else _path_mention(path, "")


def _path_mention(path: str, lines: str) -> Mention:
    found = _RANGE.fullmatch(lines)
    if found is None:
        return Mention("path", path)
    start = max(1, int(found[1]))
    end = start if found[2] is None else int(found[2]) if found[2] else None
    return Mention("path", path, start, end)


def is_large(text: str) -> bool:
    """Return whether the editor collapses a pasted text."""
    return text.count("\n") >= LINES or len(text) > CHARACTERS


class MentionChip(NamedTuple):
    """The preview of a mention. size: in words; for a variable, its type and shape."""

    label: str
    size: str
    missing: bool = False
    picture: bool = False


class PartialMention(NamedTuple):
    kind: Literal["path", "variable"]
    stem: str
    quoted: bool


def partial_mention(text: str) -> PartialMention | None:
    """Return the mention that is typed at the end of a text, if any."""
    found = _BEGUN.search(text, max(0, len(text) - _LONGEST_PARTIAL))
    if found is None:
        return None
    if found["name"] is not None:
        return PartialMention("variable", found["name"], quoted=False)
    if found["quoted"] is not None:
        return PartialMention("path", found["quoted"], quoted=True)
    return PartialMention("path", found["path"], quoted=False)


# Reading what is mentioned

LONGEST = 60_000
"""Maximum characters of an attachment."""
COMMAND_SECONDS = 30.0
_BYTES = 4 * LONGEST
"""Maximum bytes to read from a file."""
_SEARCHED = 200_000_000
"""Maximum characters of a file to search for lines."""
_WIDEST = 4
"""Maximum bytes of a character."""
_OUTLINED = 300
"""Maximum number of files of a folder to list."""
_LISTING_SECONDS = 5.0
_MOST_COUNTED = 5_000


def format_size(count: int) -> str:
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


@contextmanager
def open_without_links(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose path contains no links. Raises `OSError`, also if a pipe or a link has
    since replaced the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file")
        yield file


def read_text(
    path: Path, mention: Mention, size: str, stopped: Callable[[], bool]
) -> tuple[str, str]:
    """Return the text of a file or of some of its lines, and its size in words. Raises `OSError`
    and `BinaryFile`."""
    with open_without_links(path) as file:
        encoding = guess_encoding(file.read(HEAD_BYTES))
        if not encoding:
            raise BinaryFile
        file.seek(0)
        if mention.start is None:
            return _read_ends(file, os.fstat(file.fileno()).st_size, encoding), size
        end = None if mention.end is None else max(mention.start, mention.end)
        text = io.TextIOWrapper(file, encoding, "replace", newline="\n")
        lines: list[str] = []
        room = LONGEST
        for line in itertools.islice(_read_lines(text, stopped), mention.start - 1, end):
            lines.append(line[:room])
            room -= len(line)
            if room <= 0:
                break
    if not lines:
        return "[the file has no such lines]", "0 lines"
    rest = "\n[… the rest is left out]" if room <= 0 else ""
    return "".join(lines) + rest, f"{len(lines):,} line{'s' * (len(lines) != 1)}"


def _read_lines(text: io.TextIOWrapper, stopped: Callable[[], bool]) -> Iterator[str]:
    """Raises `OSError` after `_SEARCHED` characters, and if stopped."""
    whole, searched = True, 0
    for piece in iter(lambda: text.readline(LONGEST), ""):
        searched += len(piece)
        if searched > _SEARCHED:
            raise OSError(0, f"lines are looked for in the first {format_size(_SEARCHED)} only")
        if stopped():
            raise OSError(0, "stopped")
        if whole:
            yield piece
        whole = piece.endswith("\n")


def _read_ends(file: IO[bytes], size: int, encoding: str) -> str:
    if size <= _BYTES:
        return shorten_middle(file.read(_BYTES).decode(encoding, "replace"))
    head = file.read(_BYTES // 2)
    file.seek((size - _BYTES // 2) // _WIDEST * _WIDEST)
    tail = file.read(_BYTES // 2 + _WIDEST)
    left = f"\n[… {size - len(head) - len(tail):,} bytes left out …]\n"
    ends = head, byte_order_mark(head) + tail
    # A character that was cut through becomes replacement characters.
    return shorten_middle(left.join(d.decode(encoding, "replace").strip("\ufffd") for d in ends))


def shorten_middle(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head, tail = LONGEST * 2 // 3, LONGEST // 3
    return f"{text[:head]}\n[… {len(text) - LONGEST:,} characters left out …]\n{text[-tail:]}"


def outline(folder: Path, stopped: Callable[[], bool]) -> tuple[str, str]:
    """List the source files below a folder with their sizes; also returns their number in words.
    Raises `OSError`."""
    try:
        found, is_part = list_files(folder, _MOST_COUNTED, _LISTING_SECONDS, stopped)
    except CodeError as error:
        raise OSError(0, str(error)) from None
    lines, count = [], len(found)
    for path in found[:_OUTLINED]:
        try:
            lines.append(f"{path}  {format_size(os.stat(folder / path).st_size)}")
        except OSError:
            lines.append(path)
    if is_part:
        lines.append("[… listing the files took too long: there may be more]")
    if count > _OUTLINED:
        or_more = " or more" if count == _MOST_COUNTED else ""
        lines.append(f"… and {count - _OUTLINED:,}{or_more} files more")
    return "\n".join(lines) or "[no files]", f"{count:,} file{'s' * (count != 1)}"


def run_command(command: str, cwd: str, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Return a command's output, and its exit code or size in words. It is killed with its children
    after `COMMAND_SECONDS`."""
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
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(0)
        text = escape_output(_read_ends(output, size, "utf-8"))
    ended = why or (f"exit code {running.returncode}" if running.returncode else "")
    parts = text.rstrip("\n"), f"[{ended}]" if ended else ""
    return "\n".join(filter(None, parts)), ended or format_size(size)


CellPictures = Callable[[int], Sequence[str]]
"""Returns the pictures (base64) that a cell has displayed. Raises `StoreError`."""


def measure_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes; None for other files. Raises `PictureError` and
    `OSError`."""
    with open_without_links(path) as file:
        if not is_picture(file.read(HEAD)):
            return None
        file.seek(0)
        found, size = size_from_head(file), os.fstat(file.fileno()).st_size
    frame = ", first frame" if found.moves else ""
    return f"{found.width:,} × {found.height:,} px, {format_size(size)}{frame}"


def load_file(path: Path) -> tuple[EncodedPicture, str]:
    """Load a picture; also returns its size in words. Raises `PictureError` and `OSError`."""
    with open_without_links(path) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        most = format_size(LARGEST_FILE)
        raise PictureError(f"The picture's file is too large: at most {most} are read.")
    return _with_size(data)


def _with_size(data: bytes) -> tuple[EncodedPicture, str]:
    was, picture = size_from_head(io.BytesIO(data)), scale_picture(data)
    scaled = max(was.width, was.height) != max(picture.width, picture.height)
    of = f" of {was.width:,} × {was.height:,}" if scaled else ""
    frame = ", first frame" if was.moves else ""
    size = f"{picture.width:,} × {picture.height:,} px{of}, {format_size(picture.bytes)}{frame}"
    return picture, size


# Attachments

CELL = "cell"
"""``@cell:3`` mentions the pictures displayed by cell 3."""
MOST_CHARACTERS = 4 * LONGEST
"""Of all attachments of a question."""
_CELLS = 20
"""Maximum number of cells in one mention."""


class ExternalLink(Exception):
    """A link leads out of its folder. The message says where, and how to send the file anyway."""


class Attachment(NamedTuple):
    """An attachment, or the reason why it is missing."""

    label: str
    size: str
    text: str = ""
    problem: str = ""
    picture: EncodedPicture | None = None


def render_attachment(record: UserAttachment) -> str:
    """Format an attachment's record for the model; pictures are only named."""
    return to_xml(record, "turn", "label", "size", "problem", "picture")


class Attachments:
    """Finds what questions mention, in the kernel's working directory and namespace. Waits for the
    kernel."""

    def __init__(
        self,
        kernel: Kernel,
        pictures: CellPictures = lambda cell: (),
        private: PrivateNames | None = None,
    ) -> None:
        self._kernel = kernel
        self._cell_pictures = pictures
        self._private = private

    def chips(
        self, question: str, sees: Callable[[], bool | None] = lambda: None
    ) -> list[MentionChip]:
        """Preview attachments: only the heads of pictures are read, and no command runs. sees:
        whether the model accepts pictures."""
        chips = [chip for _, chip in self._iter_chips(question)]
        blind = any(chip.picture for chip in chips) and sees() is False
        for index, chip in enumerate(chips):
            if blind and chip.picture:
                size = f"{chip.size}, which the model does not see"
                chips[index] = chip._replace(size=size, missing=True)
        return chips

    def complete(self, question: str, cursor: int) -> Completions:
        """Complete the mention at the cursor. Raises `KernelError`."""
        stem = partial_mention(question[:cursor])
        if stem is None:
            return Completions(cursor, (), 0)
        path = stem.kind == "path"
        code = f'open("{stem.stem}' if path else stem.stem
        found = self._kernel.complete(code, len(code))
        wanted = ("file", "folder") if path else ("data", "function", "class", "module")
        items = tuple(
            item
            for item in found.items
            # An unquoted path ends at a space.
            if item.kind in wanted and (stem.quoted or not re.search(r"\s", item.text))
        )
        return Completions(cursor - (len(code) - found.start), items, found.more)

    def gather(
        self, question: str, stopped: Callable[[], bool], *, commands: bool
    ) -> list[Attachment]:
        """Collect the attachments of a question. What does not exist counts as words, unless it
        looks like a path."""
        attachments: list[Attachment] = []
        pictures, room = 0, MOST_CHARACTERS
        for mention, chip in self._iter_chips(question):
            if stopped() or (mention.kind == "command" and not commands):
                continue
            for attachment in self._attachments(mention, chip, stopped):
                label, problem = attachment.label, ""
                pictures += attachment.picture is not None
                if attachment.picture is not None and pictures > MOST:
                    problem = f"at most {MOST} pictures go with a question"
                    attachment = Attachment(label, "", problem=problem)
                if len(attachment.text) > room:
                    problem = f"too much: all attachments together may have at most {MOST_CHARACTERS:,} characters"
                    attachment = Attachment(label, attachment.size, problem=problem)
                room -= len(attachment.text)
                attachments.append(attachment)
        return attachments

    def _iter_chips(self, question: str) -> Iterator[tuple[Mention, MentionChip]]:
        found = find_mentions(question)
        variables = self._variables() if any(each.kind == "variable" for each in found) else {}
        for mention in found:
            if mention.kind == "command" and is_large(question):
                # It may be part of a pasted text that the editor shows collapsed, which nobody has
                # read.
                why = "not run: the question is long"
                yield mention, MentionChip(mention.label, why, missing=True)
            elif (chip := self._chip(mention, variables)) is not None:
                yield mention, chip

    def _variables(self) -> dict[str, str]:
        try:
            return {
                variable.name: f"{variable.type} {variable.summary}".strip()
                for variable in self._kernel.variables()
            }
        except KernelError:
            return {}

    def _chip(self, mention: Mention, variables: dict[str, str]) -> MentionChip | None:
        label = mention.label
        if mention.kind == "command":
            return MentionChip(label, "runs when sent")
        if mention.kind == "variable":
            return self._variable_chip(mention, variables)
        if self._names_cells(mention):
            return self._cells_chip(mention)
        here = " on this machine" * bool(self._kernel.info().host)
        try:
            path, link_to = self._resolve(mention.name)
            about = os.stat(path)
            size = measure_file(path) if stat.S_ISREG(about.st_mode) else None
        except (PictureError, ExternalLink) as error:
            return MentionChip(label, str(error), missing=True)
        except PermissionError as error:
            return MentionChip(label, f"cannot be read: {error.strerror}", missing=True)
        except (OSError, ValueError):
            # It may be a handle or a decorator; a slash or a suffix means that it is a file.
            if "/" in mention.name or "." in mention.name.strip("."):
                return MentionChip(label, f"no such file{here}", missing=True)
            return None
        arrow = f"→ {link_to}, " * bool(link_to)
        if size is not None:
            return MentionChip(label, f"{arrow}{size}{here}", picture=True)
        if stat.S_ISDIR(about.st_mode):
            return MentionChip(label, f"{arrow}folder{here}")
        if not stat.S_ISREG(about.st_mode):
            return MentionChip(label, "not a file", missing=True)
        of = "of " * (mention.start is not None)
        return MentionChip(label, f"{arrow}{of}{format_size(about.st_size)}{here}")

    def _variable_chip(self, mention: Mention, variables: dict[str, str]) -> MentionChip | None:
        name, label = mention.name, mention.label
        if self._private is not None and self._private.is_private(name):
            return MentionChip(label, "private: not sent", missing=True)
        if name not in variables:
            return None
        measured = None
        with suppress(KernelError):
            measured = InspectorClient(self._kernel).measure((("name", name),))
        if measured is None:
            return MentionChip(label, variables[name])
        width, height = measured
        size = f"{width:,} × {height:,} px" if width else "drawn when sent"
        return MentionChip(label, f"{variables[name]}, {size}", picture=True)

    def _cells_chip(self, mention: Mention) -> MentionChip:
        label, cells = mention.label, _mentioned_cells(mention)
        if self._private is not None and any(map(self._private.is_private_cell, cells)):
            return MentionChip(label, "not sent: it uses a private variable", missing=True)
        try:
            shown = sum(len(self._cell_pictures(cell)) for cell in cells)
        except StoreError as error:
            return MentionChip(label, str(error), missing=True)
        if not shown:
            return MentionChip(label, "it has shown no picture", missing=True)
        return MentionChip(label, "1 picture" if shown == 1 else f"{shown} pictures", picture=True)

    def _names_cells(self, mention: Mention) -> bool:
        """A file of that name takes precedence."""
        return (
            mention.kind == "path"
            and mention.name == CELL
            and mention.start is not None
            and not Path(self._kernel.info().local_folder, CELL).exists()
        )

    def _resolve(self, name: str) -> tuple[Path, str]:
        folder = Path(self._kernel.info().local_folder)
        return resolve_links(folder / os.path.expanduser(name), (Path.cwd(), folder))

    def _attachments(
        self, mention: Mention, chip: MentionChip, stopped: Callable[[], bool]
    ) -> Iterable[Attachment]:
        if chip.missing:
            return [Attachment(chip.label, "", problem=chip.size)]
        try:
            if self._names_cells(mention):
                return self._attach_cells(mention, chip)
            return [self._attachment(mention, chip, stopped)]
        except (KernelError, StoreError, PictureError, ExternalLink) as error:
            return [Attachment(chip.label, "", problem=str(error))]
        except BinaryFile:
            return [Attachment(chip.label, chip.size, problem="a binary file")]
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in a command
            why = error.strerror if isinstance(error, OSError) else error
            return [Attachment(chip.label, "", problem=f"cannot be read: {why}")]

    def _attachment(
        self, mention: Mention, chip: MentionChip, stopped: Callable[[], bool]
    ) -> Attachment:
        folder, label = self._kernel.info().local_folder, chip.label
        if mention.kind == "command":
            text, size = run_command(mention.name, folder, stopped)
            return Attachment(label, size, text)
        if mention.kind == "variable":
            return self._attach_variable(mention.name, chip)
        path, _ = self._resolve(mention.name)
        if chip.picture:
            picture, size = load_file(path)
            return Attachment(label, size, picture=picture)
        if path.is_dir():
            text, size = outline(path, stopped)
        else:
            text, size = read_text(path, mention, chip.size, stopped)
        return Attachment(label, size, text)

    def _attach_cells(self, mention: Mention, chip: MentionChip) -> list[Attachment]:
        cells = _mentioned_cells(mention)
        shown = [base64.b64decode(data) for cell in cells for data in self._cell_pictures(cell)]
        attachments = []
        for number, (picture, size) in enumerate(map(_with_size, shown), 1):
            label = f"{chip.label} ({number} of {len(shown)})" if len(shown) > 1 else chip.label
            attachments.append(Attachment(label, size, picture=picture))
        return attachments

    def _attach_variable(self, name: str, chip: MentionChip) -> Attachment:
        """Drawing a variable's picture may run its own code."""
        detail = self._kernel.inspect(name)
        cut = f"\n[… {detail.cut:,} more characters]" if detail.cut else ""
        parts = [
            f"{detail.type} {detail.summary}".strip(),
            detail.where,
            detail.doc,
            detail.source or f"{detail.text}{cut}",
            detail.error,
        ]
        text = shorten_middle("\n".join(part for part in parts if part))
        if not chip.picture:
            return Attachment(chip.label, chip.size, text)
        try:
            picture, size = _with_size(InspectorClient(self._kernel).picture((("name", name),)))
        except (KernelError, PictureError) as error:
            return Attachment(chip.label, chip.size, f"{text}\n[It is not shown: {error}]")
        return Attachment(chip.label, size, text, picture=picture)


def _mentioned_cells(mention: Mention) -> range:
    assert mention.start is not None
    end = mention.start if mention.end is None else mention.end
    return range(mention.start, min(mention.start + _CELLS, end + 1))


def resolve_links(named: Path, projects: Iterable[Path]) -> tuple[Path, str]:
    """Follow all links in an absolute path. Returns the target, and its path relative to its folder
    if there was a link. Links must not leave `projects`; outside them, not their own folder. Raises
    `ExternalLink`."""
    named, real = Path(os.path.normpath(named)), Path(os.path.realpath(named))
    folder = next((project for project in projects if named.is_relative_to(project)), named.parent)
    root = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        label = Mention("path", str(real)).label
        raise ExternalLink(f"a link to {real}, which is outside {folder}; write {label} to send it")
    inside = real.relative_to(root)
    return real, "" if inside == named.relative_to(folder) else str(inside)
