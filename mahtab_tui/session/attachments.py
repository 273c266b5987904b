"""Finds and loads what goes with a question because it is mentioned: files, variables and pictures."""

from __future__ import annotations

import base64
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import UserAttachment
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.values import Completion, CompletionKind, Completions
from mahtab_tui.knowledge.text_decoding import BinaryFile
from mahtab_tui.llm.pictures import (
    MAX_PICTURES,
    EncodedPicture,
    PictureError,
    scale_picture,
    size_from_head,
)
from mahtab_tui.session.attached_files import (
    MAX_ATTACHMENT_CHARS,
    NotAttached,
    describe_picture_size,
    read_picture,
    read_text,
    resolve_links,
)
from mahtab_tui.session.mentions import Mention, MentionChip, find_mentions, partial_mention
from mahtab_tui.session.private_names import PrivateNames

MAX_TOTAL_CHARS = 4 * MAX_ATTACHMENT_CHARS
"""Maximum characters of all attachments of a question together."""

_CELL_MENTION = re.compile("cell:([0-9]{1,9})")
_TOO_MANY_PICTURES = f"at most {MAX_PICTURES} pictures go with a question"
_TOO_MANY_CHARS = (
    f"too much: all attachments together may have at most {MAX_TOTAL_CHARS:,} characters"
)


class Attachment(NamedTuple):
    """An attachment, or the reason why it is missing."""

    label: str
    """What it is, as the user has mentioned it."""
    size: str
    """Its size or its type and shape, in words."""
    text: str = ""
    """What the model reads of it."""
    problem: str = ""
    """Why it is missing, as a clause; empty if it is not."""
    picture: EncodedPicture | None = None


class _MentionCandidate(NamedTuple):
    """The preview of a mention, and how to load it."""

    chip: MentionChip
    load: Callable[[], Attachment]
    """Returns the attachment. Raises what `_load` handles."""


def render_attachment(record: UserAttachment) -> str:
    """Format an attachment's record for the model; pictures are only named."""
    names = ["turn", "label", "size", "picture"]
    if record.problem:
        names.append("problem")
    return to_xml(record, *names)


class Attachments:
    """Finds what questions mention, in the kernel's working directory and namespace.

    Waits for the kernel.
    """

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
            has_picture = attachment.picture is not None
            picture_count += has_picture
            if has_picture and picture_count > MAX_PICTURES:
                attachment = _missing(attachment.label, _TOO_MANY_PICTURES)
            elif len(attachment.text) > remaining_chars:
                attachment = _missing(attachment.label, _TOO_MANY_CHARS)
            remaining_chars -= len(attachment.text)
            attachments.append(attachment)
        return attachments

    def _find_all(self, question: str) -> Iterator[_MentionCandidate]:
        """Yield what a question mentions and what exists, in order."""
        mentions = find_mentions(question)
        variables: dict[str, str] = {}
        if any(mention.kind == "variable" for mention in mentions):
            variables = self._describe_variables()
        for mention in mentions:
            try:
                candidates = self._find(mention, variables)
            except (NotAttached, PictureError, StoreError) as error:
                reason = str(error)
                chip = MentionChip(mention.label, reason, missing=True)
                candidates = [_MentionCandidate(chip, partial(_missing, mention.label, reason))]
            yield from candidates

    def _describe_variables(self) -> dict[str, str]:
        """Return the type and the summary of each variable; empty if the kernel does not answer."""
        with suppress(KernelError):
            return {
                variable.name: f"{variable.type} {variable.summary}".strip()
                for variable in self._kernel.variables()
            }
        return {}

    def _find(self, mention: Mention, variables: dict[str, str]) -> list[_MentionCandidate]:
        """Find what a mention stands for: several pictures, or at most one file or variable.

        Raises `NotAttached`, `PictureError` and `StoreError`.

        Args:
            mention: The mention.
            variables: Descriptions of the variables, by name.
        """
        if cell := _CELL_MENTION.fullmatch(mention.name):
            return self._find_pictures(mention.label, int(cell[1]))
        if mention.kind == "variable":
            candidate = self._find_variable(mention, variables)
        else:
            candidate = self._find_path(mention)
        return [] if candidate is None else [candidate]

    def _find_path(self, mention: Mention) -> _MentionCandidate | None:
        """Find a file.

        Returns None for a name that need not be one. Raises `NotAttached` and `PictureError`.
        """
        info = self._kernel.info()
        location = " on this machine" if info.host else ""
        folder = Path(info.local_folder)
        try:
            named_path = folder / os.path.expanduser(mention.name)
            path, link_target = resolve_links(named_path, (Path.cwd(), folder))
            status = os.stat(path)
            picture_size = describe_picture_size(path) if stat.S_ISREG(status.st_mode) else None
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
                return _attach_picture(chip.label, read_picture(path))
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
            return _attach_picture(chip.label, data)._replace(text=text)
        except (KernelError, PictureError) as error:
            return Attachment(chip.label, chip.size, f"{text}\n[It is not shown: {error}]")

    def _find_pictures(self, label: str, cell: int) -> list[_MentionCandidate]:
        """Return the pictures that a cell has displayed. Raises `NotAttached` and `StoreError`."""
        if self._private is not None and self._private.is_private_cell(cell):
            raise NotAttached("not sent: it uses a private variable")
        pictures = self._cell_pictures(cell)
        if not pictures:
            raise NotAttached("it has shown no picture")
        candidates: list[_MentionCandidate] = []
        for number, data in enumerate(pictures, 1):
            picture_label = label
            if len(pictures) > 1:
                picture_label = f"{label} ({number} of {len(pictures)})"
            chip = MentionChip(picture_label, "picture", picture=True)
            load = partial(_attach_encoded_picture, picture_label, data)
            candidates.append(_MentionCandidate(chip, load))
        return candidates


def _load(candidate: _MentionCandidate) -> Attachment:
    """Load what a question mentions; if that fails, the attachment says why."""
    chip = candidate.chip
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
    return _missing(chip.label, problem)


def _missing(label: str, problem: str) -> Attachment:
    return Attachment(label, "", problem=problem)


def _attach_encoded_picture(label: str, data: str) -> Attachment:
    """Attach a picture that a cell has displayed, in base64."""
    return _attach_picture(label, base64.b64decode(data))


def _attach_picture(label: str, data: bytes) -> Attachment:
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
