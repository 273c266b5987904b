"""Attachments of a question: files, variables and pictures."""

from __future__ import annotations

import base64
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Literal, NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.prompt import shorten, to_xml
from mahtab_tui.bus.records import UserAttachment
from mahtab_tui.kernel.base import Completions, FolderListing, Kernel, KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.knowledge.confined_folder import BinaryFile
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
from mahtab_tui.session.file_formats import HEAD_BYTES, guess_encoding
from mahtab_tui.session.variables import PrivateNames

# Mentions in a question

_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
    )""",
    re.VERBOSE,
)
_UNQUOTED = re.compile(r"""[^\s"'`]*[^\s"'`:.,;!?)\]}>]""")
_BEGUN = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CELL = re.compile("cell:([0-9]{1,9})")
_CLOSING = ".,;:!?)]}>"
LINES, CHARACTERS = 50, 10_000
_LONGEST_PARTIAL = 1_000
"""Characters before the cursor to search for the start of a mention."""


class Mention(NamedTuple):
    kind: Literal["path", "variable"]
    name: str

    @property
    def label(self) -> str:
        if self.kind == "variable":
            return f"${self.name}"
        return f"@{self.name}" if _UNQUOTED.fullmatch(self.name) else f'@"{self.name}"'


def find_mentions(question: str) -> list[Mention]:
    """Return the mentions in order, without duplicates. They need not exist: an ``@`` may also be a
    decorator."""
    mentions = (
        Mention("variable", found["name"])
        if found["name"]
        else Mention("path", found["quoted"] or found["path"].rstrip(_CLOSING))
        for found in _MENTION.finditer(question)
    )
    return list(dict.fromkeys(mention for mention in mentions if mention.name))


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
    if (name := found["name"]) is not None:
        return PartialMention("variable", name, quoted=False)
    quoted = found["quoted"] is not None
    return PartialMention("path", found["quoted" if quoted else "path"], quoted)


# Reading what is mentioned

LONGEST = 60_000
"""Maximum characters of an attachment."""
_MOST_BYTES = 50_000_000


def format_size(count: float) -> str:
    if count < 1000:
        return f"{count} B"
    power = next((each for each in (1, 2, 3) if count < 1000 ** (each + 1)), 4)
    return f"{count / 1000**power:.1f} {'kMGT'[power - 1]}B"


def render_folder(listing: FolderListing) -> str:
    """Format the names and sizes of files and folders in one line."""
    words = [
        f"{entry.name}/" if entry.size is None else f"{entry.name} ({format_size(entry.size)})"
        for entry in listing.entries
    ]
    omitted = listing.total - len(words)
    return ", ".join([*words, *([f"… and {omitted:,} more"] if omitted > 0 else [])])


@contextmanager
def open_without_links(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose path contains no links. Raises `OSError`, also if a pipe or a link has
    since replaced the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file")
        yield file


def read_text(path: Path) -> str:
    """Raises `OSError` and `BinaryFile`."""
    with open_without_links(path) as file:
        data = file.read(_MOST_BYTES)
        more = os.fstat(file.fileno()).st_size - len(data)
    encoding = guess_encoding(data[:HEAD_BYTES])
    if not encoding:
        raise BinaryFile
    rest = f"\n[… {more:,} bytes left out]" if more > 0 else ""
    return shorten(data.decode(encoding, "replace"), LONGEST) + rest


def measure_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes; None for other files. Raises `PictureError` and
    `OSError`."""
    with open_without_links(path) as file:
        if not is_picture(file.read(HEAD)):
            return None
        file.seek(0)
        picture, size = size_from_head(file), os.fstat(file.fileno()).st_size
    return f"{picture.width:,} × {picture.height:,} px, {format_size(size)}"


def _read_picture(path: Path) -> bytes:
    with open_without_links(path) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        most = format_size(LARGEST_FILE)
        raise PictureError(f"The picture's file is too large: at most {most} are read.")
    return data


def _picture_attachment(label: str, data: bytes) -> Attachment:
    was, picture = size_from_head(io.BytesIO(data)), scale_picture(data)
    scaled = max(was.width, was.height) != max(picture.width, picture.height)
    of = f" of {was.width:,} × {was.height:,}" if scaled else ""
    frame = ", first frame" if was.moves else ""
    size = f"{picture.width:,} × {picture.height:,} px{of}, {format_size(picture.bytes)}{frame}"
    return Attachment(label, size, picture=picture)


MOST_CHARACTERS = 4 * LONGEST
"""Limit of all attachments of a question together."""


class NotAttached(Exception):
    """Something is not attached. The message says why."""


class Attachment(NamedTuple):
    """An attachment, or the reason why it is missing."""

    label: str
    size: str
    text: str = ""
    problem: str = ""
    picture: EncodedPicture | None = None


class _Found(NamedTuple):
    """The preview of a mention, and how to load it."""

    chip: MentionChip
    load: Callable[[], Attachment] | None


def render_attachment(record: UserAttachment) -> str:
    """Format an attachment's record for the model; pictures are only named."""
    return to_xml(record, "turn", "label", "size", "problem", "picture")


class Attachments:
    """Finds what questions mention, in the kernel's working directory and namespace. Waits for the
    kernel."""

    def __init__(
        self,
        kernel: Kernel,
        pictures: Callable[[int], Sequence[str]] = lambda cell: (),
        private: PrivateNames | None = None,
    ) -> None:
        """pictures: returns what a cell has displayed, as base64."""
        self._kernel = kernel
        self._cell_pictures = pictures
        self._private = private

    def chips(self, question: str) -> list[MentionChip]:
        """Preview attachments: only the heads of pictures are read."""
        return [found.chip for found in self._find_all(question)]

    def complete(self, question: str, cursor: int) -> Completions:
        """Complete the mention at the cursor. Raises `KernelError`."""
        stem = partial_mention(question[:cursor])
        if stem is None:
            return Completions(cursor, (), 0)
        path = stem.kind == "path"
        code = f'open("{stem.stem}' if path else stem.stem
        closing_quote = '"' if question.startswith('"', cursor) else ""
        found = self._kernel.complete(code + closing_quote, len(code))
        wanted = ("file", "folder") if path else ("data", "function", "class", "module")
        items = tuple(
            item if stem.quoted else replace(item, text=item.label)
            for item in found.items
            # An unquoted path ends at a space.
            if item.kind in wanted and (stem.quoted or not re.search(r"\s", item.label))
        )
        return Completions(cursor - (len(code) - found.start), items, found.more)

    def gather(self, question: str, stopped: Callable[[], bool]) -> list[Attachment]:
        """Collect the attachments of a question. What does not exist counts as words, unless it
        looks like a path."""
        attachments: list[Attachment] = []
        pictures, room = 0, MOST_CHARACTERS
        for found in self._find_all(question):
            if stopped():
                break
            attachment, why = _load(found), ""
            pictures += attachment.picture is not None
            if attachment.picture is not None and pictures > MOST:
                why = f"at most {MOST} pictures go with a question"
            elif len(attachment.text) > room:
                why = f"too much: all attachments together may have at most {MOST_CHARACTERS:,} characters"
            if why:
                attachment = Attachment(attachment.label, "", problem=why)
            room -= len(attachment.text)
            attachments.append(attachment)
        return attachments

    def _find_all(self, question: str) -> Iterator[_Found]:
        mentions = find_mentions(question)
        variables: dict[str, str] = {}
        if any(mention.kind == "variable" for mention in mentions):
            with suppress(KernelError):
                variables = {
                    variable.name: f"{variable.type} {variable.summary}".strip()
                    for variable in self._kernel.variables()
                }
        for mention in mentions:
            try:
                if cell := _CELL.fullmatch(mention.name):
                    yield from self._find_pictures(mention.label, int(cell[1]))
                    continue
                if mention.kind == "variable":
                    found = self._find_variable(mention, variables)
                else:
                    found = self._find_path(mention)
            except (NotAttached, PictureError, StoreError) as error:
                found = _Found(MentionChip(mention.label, str(error), missing=True), None)
            if found is not None:
                yield found

    def _find_path(self, mention: Mention) -> _Found | None:
        info = self._kernel.info()
        where = " on this machine" * bool(info.host)
        folder = Path(info.local_folder)
        try:
            named = folder / os.path.expanduser(mention.name)
            path, link_to = resolve_links(named, (Path.cwd(), folder))
            about = os.stat(path)
            size = measure_file(path) if stat.S_ISREG(about.st_mode) else None
        except PermissionError as error:
            raise NotAttached(f"cannot be read: {error.strerror}") from None
        except (OSError, ValueError):
            # It may be a handle or a decorator; a slash or a suffix means that it is a file.
            if "/" in mention.name or "." in mention.name.strip("."):
                raise NotAttached(f"no such file{where}") from None
            return None
        if not stat.S_ISREG(about.st_mode):
            raise NotAttached("not a file")
        arrow = f"→ {link_to}, " * bool(link_to)
        words = f"{arrow}{size or format_size(about.st_size)}{where}"
        chip = MentionChip(mention.label, words, picture=size is not None)

        def load() -> Attachment:
            if chip.picture:
                return _picture_attachment(chip.label, _read_picture(path))
            return Attachment(chip.label, chip.size, read_text(path))

        return _Found(chip, load)

    def _find_variable(self, mention: Mention, variables: dict[str, str]) -> _Found | None:
        name, label = mention.name, mention.label
        if self._private is not None and self._private.is_private(name):
            raise NotAttached("private: not sent")
        if name not in variables:
            return None
        chip = MentionChip(label, variables[name])
        with suppress(KernelError):
            if measured := InspectorClient(self._kernel).measure((("name", name),)):
                width, height = measured
                size = f"{width:,} × {height:,} px" if width else "drawn when sent"
                chip = MentionChip(label, f"{variables[name]}, {size}", picture=True)
        return _Found(chip, lambda: self._attach_variable(name, chip))

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
        text = shorten("\n".join(filter(None, parts)), LONGEST)
        if not chip.picture:
            return Attachment(chip.label, chip.size, text)
        try:
            data = InspectorClient(self._kernel).picture((("name", name),))
            return _picture_attachment(chip.label, data)._replace(text=text)
        except (KernelError, PictureError) as error:
            return Attachment(chip.label, chip.size, f"{text}\n[It is not shown: {error}]")

    def _find_pictures(self, label: str, cell: int) -> Iterator[_Found]:
        if self._private is not None and self._private.is_private_cell(cell):
            raise NotAttached("not sent: it uses a private variable")
        shown = self._cell_pictures(cell)
        if not shown:
            raise NotAttached("it has shown no picture")
        for number, data in enumerate(shown, 1):
            each = f"{label} ({number} of {len(shown)})" if len(shown) > 1 else label
            chip = MentionChip(each, "picture", picture=True)
            yield _Found(chip, partial(_picture_from_base64, each, data))


def _picture_from_base64(label: str, data: str) -> Attachment:
    return _picture_attachment(label, base64.b64decode(data))


def _load(found: _Found) -> Attachment:
    label, size = found.chip.label, found.chip.size
    if found.load is None:
        return Attachment(label, "", problem=size)
    try:
        return found.load()
    except BinaryFile:
        return Attachment(label, size, problem="a binary file")
    except (KernelError, PictureError) as error:
        why = str(error)
    except (OSError, ValueError) as error:  # ValueError: a damaged picture of a saved session
        why = f"cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    return Attachment(label, "", problem=why)


def resolve_links(named: Path, projects: Iterable[Path]) -> tuple[Path, str]:
    """Follow all links in an absolute path. Returns the target, and its path relative to its folder
    if there was a link. Links must not leave `projects`; outside them, not their own folder. Raises
    `NotAttached`."""
    named, real = Path(os.path.normpath(named)), Path(os.path.realpath(named))
    folder = next((project for project in projects if named.is_relative_to(project)), named.parent)
    root = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        label = Mention("path", str(real)).label
        raise NotAttached(f"a link to {real}, which is outside {folder}; write {label} to send it")
    inside = real.relative_to(root)
    return real, "" if inside == named.relative_to(folder) else str(inside)
