"""Finds, completes and collects the attachments of a question: files, outlines of folders,
variables, pictures, and output of commands."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.logger import StoreError
from mahtab_tui.bus.prompt import to_xml
from mahtab_tui.bus.records import UserAttachment
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Completions
from mahtab_tui.knowledge.confined_folder import BinaryFile
from mahtab_tui.llm.pictures import MOST, EncodedPicture, PictureError
from mahtab_tui.session import attached
from mahtab_tui.session.attached import (
    Mention,
    MentionChip,
    find_mentions,
    is_large,
    partial_mention,
)
from mahtab_tui.session.variables import PrivateNames

CELL = "cell"
"""``@cell:3`` mentions the pictures displayed by cell 3."""
MOST_CHARACTERS = 4 * attached.LONGEST
"""Maximum characters of all attachments of a question."""
_CELLS = 20
"""Maximum number of cells in one mention."""


class ExternalLink(Exception):
    """A link leads out of its folder. The message says where, and how to send the file anyway."""


class Attachment(NamedTuple):
    """An attachment of a question, or the reason why it is missing."""

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
    kernel, so it must not be called on the main thread."""

    def __init__(
        self,
        kernel: Kernel,
        shown: attached.CellPictures = lambda cell: (),
        private: PrivateNames | None = None,
    ) -> None:
        """private: knows which variables must not be sent."""
        self._kernel = kernel
        self._cell_pictures = shown
        self._private = private

    def chips(
        self, question: str, sees: Callable[[], bool | None] = lambda: None
    ) -> list[MentionChip]:
        """Preview the attachments of a question. Only the heads of pictures are read, and no
        command runs.

        sees: whether the model accepts pictures; None if unknown.
        """
        chips = [chip for _, chip in self._iter_chips(question)]
        if any(chip.picture for chip in chips) and sees() is False:
            return [
                chip._replace(size=f"{chip.size}, which the model does not see", missing=True)
                if chip.picture
                else chip
                for chip in chips
            ]
        return chips

    def complete(self, question: str, cursor: int) -> Completions:
        """Complete the mention at the cursor with files or variables. Raises `KernelError`."""
        stem = partial_mention(question[:cursor])
        if stem is None:
            return Completions(cursor, (), 0)
        code = f'open("{stem.stem}' if stem.kind == "path" else stem.stem
        found = self._kernel.complete(code, len(code))
        # An unquoted path ends at a space.
        items = [item for item in found.items if stem.quoted or not re.search(r"\s", item.text)]
        wanted = (
            ("file", "folder") if stem.kind == "path" else ("data", "function", "class", "module")
        )
        items = [item for item in items if item.kind in wanted]
        return Completions(cursor - (len(code) - found.start), tuple(items), found.more)

    def gather(
        self, question: str, stopped: Callable[[], bool], *, commands: bool
    ) -> list[Attachment]:
        """Collect the attachments of a question. commands: whether to run the commands it mentions.

        A mention of something that does not exist is treated as plain words, unless it looks like a
        path.
        """
        attachments: list[Attachment] = []
        seen, room = 0, MOST_CHARACTERS
        for mention, chip in self._iter_chips(question):
            if stopped() or (mention.kind == "command" and not commands):
                continue
            for attachment in self._attachments(mention, chip, stopped):
                seen += attachment.picture is not None
                if attachment.picture is not None and seen > MOST:
                    attachment = Attachment(
                        attachment.label, "", problem=f"at most {MOST} pictures go with a question"
                    )
                if len(attachment.text) > room:
                    attachment = Attachment(
                        attachment.label,
                        attachment.size,
                        problem=f"too much: all attachments together may have at most {MOST_CHARACTERS:,} characters",
                    )
                room -= len(attachment.text)
                attachments.append(attachment)
        return attachments

    def _iter_chips(self, question: str) -> Iterator[tuple[Mention, MentionChip]]:
        found = find_mentions(question)
        variables = (
            self._variables() if any(mention.kind == "variable" for mention in found) else {}
        )
        for mention in found:
            if mention.kind == "command" and is_large(question):
                # It may be part of a pasted text that the editor shows collapsed, which nobody has
                # read.
                yield (
                    mention,
                    MentionChip(mention.label, "not run: the question is long", missing=True),
                )
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
        if mention.kind == "command":
            return MentionChip(mention.label, "runs when sent")
        if (
            mention.kind == "variable"
            and self._private is not None
            and self._private.is_private(mention.name)
        ):
            return MentionChip(mention.label, "private: not sent", missing=True)
        if mention.kind == "variable":
            return (
                self._variable_chip(mention, variables[mention.name])
                if mention.name in variables
                else None
            )
        if self._names_cells(mention):
            return self._cells_chip(mention)
        here = " on this machine" * bool(self._kernel.info().host)
        try:
            path, link_to = self._resolve(mention.name)
            about = os.stat(path)
            size = attached.measure_file(path) if stat.S_ISREG(about.st_mode) else None
        except (PictureError, ExternalLink) as error:
            return MentionChip(mention.label, str(error), missing=True)
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError):
                return MentionChip(mention.label, f"cannot be read: {error.strerror}", missing=True)
            # It may be a handle or a decorator; a slash or a suffix means that it is a file.
            looks_so = "/" in mention.name or "." in mention.name.strip(".")
            return (
                MentionChip(mention.label, f"no such file{here}", missing=True)
                if looks_so
                else None
            )
        arrow = f"→ {link_to}, " * bool(link_to)
        if size is not None:
            return MentionChip(mention.label, f"{arrow}{size}{here}", picture=True)
        if stat.S_ISDIR(about.st_mode):
            return MentionChip(mention.label, f"{arrow}folder{here}")
        if not stat.S_ISREG(about.st_mode):
            return MentionChip(mention.label, "not a file", missing=True)
        size = attached.format_size(about.st_size)
        return MentionChip(
            mention.label, f"{arrow}{'of ' * (mention.start is not None)}{size}{here}"
        )

    def _variable_chip(self, mention: Mention, about: str) -> MentionChip:
        try:
            size = attached.measure_variable(self._kernel, mention.name)
        except KernelError:
            size = None
        return (
            MentionChip(mention.label, about)
            if size is None
            else MentionChip(mention.label, f"{about}, {size}", picture=True)
        )

    def _cells_chip(self, mention: Mention) -> MentionChip:
        if self._private is not None and any(
            map(self._private.is_private_cell, _mentioned_cells(mention))
        ):
            return MentionChip(mention.label, "not sent: it uses a private variable", missing=True)
        try:
            found = [
                data for cell in _mentioned_cells(mention) for data in self._cell_pictures(cell)
            ]
            sizes = [attached.measure_display(data) for data in found]
        except (StoreError, PictureError) as error:
            return MentionChip(mention.label, str(error), missing=True)
        if not sizes:
            return MentionChip(mention.label, "it has shown no picture", missing=True)
        return MentionChip(
            mention.label, sizes[0] if len(sizes) == 1 else f"{len(sizes)} pictures", picture=True
        )

    def _names_cells(self, mention: Mention) -> bool:
        """Return whether it mentions pictures of cells. A file of that name takes precedence."""
        return (
            mention.kind == "path"
            and mention.name == CELL
            and mention.start is not None
            and not self._path(CELL).exists()
        )

    def _path(self, name: str) -> Path:
        return Path(self._kernel.info().local_folder, os.path.expanduser(name))

    def _resolve(self, name: str) -> tuple[Path, str]:
        """Resolve a path; see `resolve_links`. Also raises `OSError`."""
        return resolve_links(self._path(name), (Path.cwd(), Path(self._kernel.info().local_folder)))

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
        if mention.kind == "command":
            text, size = attached.run_command(
                mention.name, self._kernel.info().local_folder, stopped
            )
            return Attachment(chip.label, size, text)
        if mention.kind == "variable":
            return self._attach_variable(mention.name, chip)
        path, _ = self._resolve(mention.name)
        if chip.picture:
            picture, size = attached.load_file(path)
            return Attachment(chip.label, size, picture=picture)
        text, size = (
            attached.outline(path, stopped)
            if path.is_dir()
            else attached.read_text(path, mention, chip.size, stopped)
        )
        return Attachment(chip.label, size, text)

    def _attach_cells(self, mention: Mention, chip: MentionChip) -> list[Attachment]:
        found = [
            attached.load_display(data)
            for cell in _mentioned_cells(mention)
            for data in self._cell_pictures(cell)
        ]
        return [
            Attachment(
                f"{chip.label} ({number} of {len(found)})" if len(found) > 1 else chip.label,
                size,
                picture=picture,
            )
            for number, (picture, size) in enumerate(found, 1)
        ]

    def _attach_variable(self, name: str, chip: MentionChip) -> Attachment:
        """Return the details of a variable, and its picture if it has one that can be drawn."""
        text = self._detail(name)
        if not chip.picture:
            return Attachment(chip.label, chip.size, text)
        try:
            picture, size = attached.draw_variable(self._kernel, name)
        except (KernelError, PictureError) as error:
            return Attachment(chip.label, chip.size, f"{text}\n[It is not shown: {error}]")
        return Attachment(chip.label, size, text, picture=picture)

    def _detail(self, name: str) -> str:
        detail = self._kernel.inspect(name)
        cut = f"\n[… {detail.cut:,} more characters]" if detail.cut else ""
        parts = [
            f"{detail.type} {detail.summary}".strip(),
            detail.where,
            detail.doc,
            detail.source or f"{detail.text}{cut}",
            detail.error,
        ]
        return attached.shorten_middle("\n".join(part for part in parts if part))


def _mentioned_cells(mention: Mention) -> range:
    assert mention.start is not None
    return range(
        mention.start,
        min(mention.start + _CELLS, (mention.start if mention.end is None else mention.end) + 1),
    )


def resolve_links(named: Path, projects: Iterable[Path]) -> tuple[Path, str]:
    """Follow all links in an absolute path, which need not exist. Returns the target, and its path
    relative to its folder if there was a link.

    projects: folders that links must not leave. Links outside them must stay in their own folder.
    Raises `ExternalLink`.
    """
    named, real = Path(os.path.normpath(named)), Path(os.path.realpath(named))
    folder = next((project for project in projects if named.is_relative_to(project)), named.parent)
    root = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        raise ExternalLink(
            f"a link to {real}, which is outside {folder}; write {Mention('path', str(real)).label} to send it"
        )
    inside = real.relative_to(root)
    return real, "" if inside == named.relative_to(folder) else str(inside)
