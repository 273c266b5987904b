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
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import UserAttachment
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.values import Completion, CompletionKind, Completions, FolderListing
from mahtab_tui.knowledge.confined_folder import BinaryFile
from mahtab_tui.llm.pictures import (
    MAX_FILE_BYTES,
    MAX_PICTURES,
    PICTURE_HEAD_BYTES,
    EncodedPicture,
    PictureError,
    is_picture,
    scale_picture,
    size_from_head,
)
from mahtab_tui.session.file_formats import HEAD_BYTES, guess_encoding
from mahtab_tui.session.private_names import PrivateNames

MIN_LARGE_LINES = 50
"""Line breaks in a pasted text from which on the editor collapses it."""
MAX_SMALL_CHARS = 10_000
"""A longer pasted text is collapsed, too."""
MAX_ATTACHMENT_CHARS = 60_000
"""Maximum characters of an attachment."""
MAX_TOTAL_CHARS = 4 * MAX_ATTACHMENT_CHARS
"""Maximum characters of all attachments of a question together."""
_MAX_READ_BYTES = 50_000_000
"""Bytes of a text file that are read."""
_MAX_PARTIAL_CHARS = 1_000
"""Characters before the cursor to search for the start of a mention."""

_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
    )""",
    re.VERBOSE,
)
_UNQUOTED_PATH = re.compile(r"""[^\s"'`]*[^\s"'`:.,;!?)\]}>]""")
"""A path that needs no quotation marks in a mention."""
_PARTIAL_MENTION = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CELL_MENTION = re.compile("cell:([0-9]{1,9})")
_CLOSING_PUNCTUATION = ".,;:!?)]}>"
"""Characters that end a sentence rather than a path."""


# Mentions in a question


class Mention(NamedTuple):
    """A file or a variable that a question names with ``@`` or ``$``."""

    kind: Literal["path", "variable"]
    name: str

    @property
    def label(self) -> str:
        if self.kind == "variable":
            return f"${self.name}"
        if _UNQUOTED_PATH.fullmatch(self.name):
            return f"@{self.name}"
        return f'@"{self.name}"'


def find_mentions(question: str) -> list[Mention]:
    """Return the mentions in order, without duplicates. They need not exist: an ``@`` may also be a
    decorator."""
    mentions: dict[Mention, None] = {}
    for match in _MENTION.finditer(question):
        if match["name"]:
            mention = Mention("variable", match["name"])
        else:
            path = match["quoted"] or match["path"].rstrip(_CLOSING_PUNCTUATION)
            mention = Mention("path", path)
        if mention.name:
            mentions[mention] = None
    return list(mentions)


def is_large(text: str) -> bool:
    """Return whether the editor collapses a pasted text."""
    return text.count("\n") >= MIN_LARGE_LINES or len(text) > MAX_SMALL_CHARS


class MentionChip(NamedTuple):
    """The preview of a mention, below the editor."""

    label: str
    size: str
    """In words: a file's size, a variable's type and shape, or why it is missing."""
    missing: bool = False
    picture: bool = False


class PartialMention(NamedTuple):
    """A mention that the user is typing."""

    kind: Literal["path", "variable"]
    stem: str
    """What is typed so far, without the sign."""
    quoted: bool


def partial_mention(text: str) -> PartialMention | None:
    """Return the mention that is typed at the end of a text, if any."""
    match = _PARTIAL_MENTION.search(text, max(0, len(text) - _MAX_PARTIAL_CHARS))
    if match is None:
        return None
    if match["name"] is not None:
        return PartialMention("variable", match["name"], quoted=False)
    if match["quoted"] is not None:
        return PartialMention("path", match["quoted"], quoted=True)
    return PartialMention("path", match["path"], quoted=False)


# Reading what is mentioned


def format_size(byte_count: float) -> str:
    """Format a number of bytes with a decimal prefix: ``1.2 MB``."""
    if byte_count < 1000:
        return f"{byte_count} B"
    power = 1
    while power < 4 and byte_count >= 1000 ** (power + 1):
        power += 1
    return f"{byte_count / 1000**power:.1f} {'kMGT'[power - 1]}B"


def render_folder(listing: FolderListing) -> str:
    """Format the names and sizes of files and folders in one line."""
    words: list[str] = []
    for entry in listing.entries:
        if entry.size is None:
            words.append(f"{entry.name}/")
        else:
            words.append(f"{entry.name} ({format_size(entry.size)})")
    omitted_count = listing.total - len(words)
    if omitted_count > 0:
        words.append(f"… and {omitted_count:,} more")
    return ", ".join(words)


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
    """Read a text file; the middle of a long one is left out. Raises `OSError` and `BinaryFile`."""
    with open_without_links(path) as file:
        data = file.read(_MAX_READ_BYTES)
        omitted_bytes = os.fstat(file.fileno()).st_size - len(data)
    encoding = guess_encoding(data[:HEAD_BYTES])
    if not encoding:
        raise BinaryFile
    text = shorten(data.decode(encoding, "replace"), MAX_ATTACHMENT_CHARS)
    if omitted_bytes > 0:
        text += f"\n[… {omitted_bytes:,} bytes left out]"
    return text


def measure_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes; None for other files. Raises `PictureError` and
    `OSError`."""
    with open_without_links(path) as file:
        if not is_picture(file.read(PICTURE_HEAD_BYTES)):
            return None
        file.seek(0)
        picture = size_from_head(file)
        byte_count = os.fstat(file.fileno()).st_size
    return f"{picture.width:,} × {picture.height:,} px, {format_size(byte_count)}"


def _read_picture(path: Path) -> bytes:
    with open_without_links(path) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        max_size = format_size(MAX_FILE_BYTES)
        raise PictureError(f"The picture's file is too large: at most {max_size} are read.")
    return data


def _picture_attachment(label: str, data: bytes) -> Attachment:
    """Scale a picture, and describe what is sent: ``768 × 576 px of 4,000 × 3,000, 90.1 kB``."""
    original = size_from_head(io.BytesIO(data))
    picture = scale_picture(data)
    size = f"{picture.width:,} × {picture.height:,} px"
    # Only the longer sides are compared, because a turned picture has its sides exchanged.
    if max(original.width, original.height) != max(picture.width, picture.height):
        size += f" of {original.width:,} × {original.height:,}"
    size += f", {format_size(picture.bytes)}"
    if original.moves:
        size += ", first frame"
    return Attachment(label, size, picture=picture)


class NotAttached(Exception):
    """Something is not attached. The message says why."""


class Attachment(NamedTuple):
    """An attachment, or the reason why it is missing."""

    label: str
    size: str
    text: str = ""
    problem: str = ""
    picture: EncodedPicture | None = None


class _MentionCandidate(NamedTuple):
    """The preview of a mention, and how to load it."""

    chip: MentionChip
    load: Callable[[], Attachment] | None
    """None if there is nothing to load; then the chip's size says why."""


def render_attachment(record: UserAttachment) -> str:
    """Format an attachment's record for the model; pictures are only named."""
    names = ["turn", "label", "size", "picture"]
    if record.problem:
        names.append("problem")
    return to_xml(record, *names)


class Attachments:
    """Finds what questions mention, in the kernel's working directory and namespace. Waits for the
    kernel."""

    def __init__(
        self,
        kernel: Kernel,
        pictures: Callable[[int], Sequence[str]] = lambda cell: (),
        private: PrivateNames | None = None,
    ) -> None:
        """Create a finder.

        Args:
            kernel: The kernel.
            pictures: Returns the pictures that a cell has displayed, as base64.
            private: The private variables, which are not attached.
        """
        self._kernel = kernel
        self._cell_pictures = pictures
        self._private = private

    def chips(self, question: str) -> list[MentionChip]:
        """Preview attachments: only the heads of pictures are read."""
        return [candidate.chip for candidate in self._find_all(question)]

    def complete(self, question: str, cursor: int) -> Completions:
        """Complete the mention at the cursor. Raises `KernelError`."""
        mention = partial_mention(question[:cursor])
        if mention is None:
            return Completions(cursor, (), 0)

        # The kernel completes the paths in a call of `open`, and names as they are.
        code = mention.stem
        kinds: tuple[CompletionKind, ...] = ("data", "function", "class", "module")
        if mention.kind == "path":
            code = f'open("{mention.stem}'
            kinds = ("file", "folder")
        closing_quote = '"' if question.startswith('"', cursor) else ""
        completions = self._kernel.complete(code + closing_quote, len(code))

        items: list[Completion] = []
        for item in completions.items:
            if item.kind not in kinds:
                continue
            if mention.quoted:
                items.append(item)
            elif not re.search(r"\s", item.label):
                # An unquoted path ends at a space.
                items.append(replace(item, text=item.label))
        start = cursor - (len(code) - completions.start)
        return Completions(start, tuple(items), completions.more)

    def gather(self, question: str, is_stopped: Callable[[], bool]) -> list[Attachment]:
        """Collect the attachments of a question.

        What does not exist counts as words of the question, unless it looks like a path.

        Args:
            question: The question.
            is_stopped: Asked before each attachment is loaded.
        """
        attachments: list[Attachment] = []
        picture_count = 0
        remaining_chars = MAX_TOTAL_CHARS
        for candidate in self._find_all(question):
            if is_stopped():
                break

            attachment = _load(candidate)
            problem = ""
            if attachment.picture is not None:
                picture_count += 1
            if attachment.picture is not None and picture_count > MAX_PICTURES:
                problem = f"at most {MAX_PICTURES} pictures go with a question"
            elif len(attachment.text) > remaining_chars:
                problem = f"too much: all attachments together may have at most {MAX_TOTAL_CHARS:,} characters"
            if problem:
                attachment = Attachment(attachment.label, "", problem=problem)
            remaining_chars -= len(attachment.text)
            attachments.append(attachment)
        return attachments

    def _find_all(self, question: str) -> Iterator[_MentionCandidate]:
        """Yield what a question mentions and what exists, in order."""
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
                if match := _CELL_MENTION.fullmatch(mention.name):
                    yield from self._find_pictures(mention.label, int(match[1]))
                    continue
                if mention.kind == "variable":
                    candidate = self._find_variable(mention, variables)
                else:
                    candidate = self._find_path(mention)
            except (NotAttached, PictureError, StoreError) as error:
                chip = MentionChip(mention.label, str(error), missing=True)
                candidate = _MentionCandidate(chip, None)
            if candidate is not None:
                yield candidate

    def _find_path(self, mention: Mention) -> _MentionCandidate | None:
        """Find a file. Returns None for a name that need not be one. Raises `NotAttached` and
        `PictureError`."""
        info = self._kernel.info()
        location = " on this machine" if info.host else ""
        folder = Path(info.local_folder)
        try:
            named_path = folder / os.path.expanduser(mention.name)
            path, link_target = resolve_links(named_path, (Path.cwd(), folder))
            status = os.stat(path)
            picture_size = measure_file(path) if stat.S_ISREG(status.st_mode) else None
        except PermissionError as error:
            raise NotAttached(f"cannot be read: {error.strerror}") from None
        except (OSError, ValueError):
            # It may be a handle or a decorator; a slash or a suffix means that it is a file.
            if "/" in mention.name or "." in mention.name.strip("."):
                raise NotAttached(f"no such file{location}") from None
            return None
        if not stat.S_ISREG(status.st_mode):
            raise NotAttached("not a file")

        size = f"{picture_size or format_size(status.st_size)}{location}"
        if link_target:
            size = f"→ {link_target}, {size}"
        chip = MentionChip(mention.label, size, picture=picture_size is not None)

        def load() -> Attachment:
            if chip.picture:
                return _picture_attachment(chip.label, _read_picture(path))
            return Attachment(chip.label, chip.size, read_text(path))

        return _MentionCandidate(chip, load)

    def _find_variable(
        self, mention: Mention, variables: dict[str, str]
    ) -> _MentionCandidate | None:
        """Find a variable among those of the kernel, by name. Raises `NotAttached`."""
        name = mention.name
        if self._private is not None and self._private.is_private(name):
            raise NotAttached("private: not sent")
        if name not in variables:
            return None

        chip = MentionChip(mention.label, variables[name])
        with suppress(KernelError):
            pixels = InspectorClient(self._kernel).measure((("name", name),))
            if pixels is not None:
                width, height = pixels
                size = f"{width:,} × {height:,} px" if width else "drawn when sent"
                chip = MentionChip(mention.label, f"{variables[name]}, {size}", picture=True)
        return _MentionCandidate(chip, lambda: self._attach_variable(name, chip))

    def _attach_variable(self, name: str, chip: MentionChip) -> Attachment:
        """Describe a variable, and draw its picture if it has one, which may run its own code."""
        detail = self._kernel.inspect(name)
        content = detail.source
        if not content:
            content = detail.text
            if detail.cut:
                content += f"\n[… {detail.cut:,} more characters]"
        sections = [
            f"{detail.type} {detail.summary}".strip(),
            detail.where,
            detail.doc,
            content,
            detail.error,
        ]
        text = shorten("\n".join(filter(None, sections)), MAX_ATTACHMENT_CHARS)
        if not chip.picture:
            return Attachment(chip.label, chip.size, text)
        try:
            data = InspectorClient(self._kernel).picture((("name", name),))
            return _picture_attachment(chip.label, data)._replace(text=text)
        except (KernelError, PictureError) as error:
            return Attachment(chip.label, chip.size, f"{text}\n[It is not shown: {error}]")

    def _find_pictures(self, label: str, cell: int) -> Iterator[_MentionCandidate]:
        """Yield the pictures that a cell has displayed. Raises `NotAttached`."""
        if self._private is not None and self._private.is_private_cell(cell):
            raise NotAttached("not sent: it uses a private variable")
        pictures = self._cell_pictures(cell)
        if not pictures:
            raise NotAttached("it has shown no picture")
        for number, data in enumerate(pictures, 1):
            picture_label = label
            if len(pictures) > 1:
                picture_label = f"{label} ({number} of {len(pictures)})"
            chip = MentionChip(picture_label, "picture", picture=True)
            yield _MentionCandidate(chip, partial(_picture_from_base64, picture_label, data))


def _picture_from_base64(label: str, data: str) -> Attachment:
    return _picture_attachment(label, base64.b64decode(data))


def _load(candidate: _MentionCandidate) -> Attachment:
    """Load what a question mentions; if that fails, the attachment says why."""
    chip = candidate.chip
    if candidate.load is None:
        return Attachment(chip.label, "", problem=chip.size)
    try:
        return candidate.load()
    except BinaryFile:
        return Attachment(chip.label, chip.size, problem="a binary file")
    except (KernelError, PictureError) as error:
        problem = str(error)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError as error:
        # A picture of a saved session is damaged.
        problem = f"cannot be read: {error}"
    return Attachment(chip.label, "", problem=problem)


def resolve_links(path: Path, projects: Iterable[Path]) -> tuple[Path, str]:
    """Follow all links in a path, but not out of its project.

    Args:
        path: An absolute path.
        projects: Folders that links must not leave. A path outside them must not leave the folder
            that it is in.

    Returns:
        The target; and if there was a link, the target's path relative to the folder, else "".

    Raises:
        NotAttached: A link leads out of the folder.
    """
    # Resolved before ``..`` is removed, as the system does: it follows a link that comes before it.
    target = Path(os.path.realpath(path))
    path = Path(os.path.normpath(path))
    folder = path.parent
    for project in projects:
        if path.is_relative_to(project):
            folder = project
            break

    real_folder = Path(os.path.realpath(folder))
    if not target.is_relative_to(real_folder):
        label = Mention("path", str(target)).label
        raise NotAttached(
            f"a link to {target}, which is outside {folder}; write {label} to send it"
        )
    relative_target = target.relative_to(real_folder)
    if relative_target == path.relative_to(folder):
        return target, ""
    return target, str(relative_target)
