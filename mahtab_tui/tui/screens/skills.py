"""The screen of all skills."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import work
from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.library import (
    LoadedSkills,
    SkillLibrary,
    SkillNotFound,
    SkillsBudgetExceeded,
)
from mahtab_tui.knowledge.skills import (
    Skill,
    SkillError,
    create_skill,
    instructions_text,
    skill_texts,
    trust_texts,
)
from mahtab_tui.settings.model import SettingsError, resource_folder
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView
from mahtab_tui.tui.screens.dialog import Prompt, ask, confirm
from mahtab_tui.tui.screens.listing import Listing, ListScreen, short_path
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import Palette

LONGEST = 20_000
"""Maximum characters to draw; the preview says how many more there are."""


class MarkdownRows:
    """A `RowSource` of one Markdown text."""

    def __init__(self) -> None:
        self.source = ""
        self._rows: list[Row] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._rows = Markdown(palette).document(plain(self.source), max(8, width - EDGE - RIGHT))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]


class MarkdownPreview(RowsView, can_focus=True):
    """Renders Markdown as in the transcript's answers."""

    bars = True

    def __init__(self, *, id: str | None = None) -> None:
        self.rows = MarkdownRows()
        super().__init__(self.rows, id=id)

    def show(self, source: str) -> None:
        if len(source) > LONGEST:
            source = f"{source[:LONGEST]}\n\n*… {len(source) - LONGEST:,} characters more: open it in the editor.*"
        if source != self.rows.source:
            self.rows.source = source
            self.scroll_to(y=0, animate=False, force=True)
            self.reload()


MAX_FOUND = 500
"""Maximum number of listed skills."""
_NAME = 24
"""Maximum columns of a name, so that all descriptions start in the same column."""
_TOKEN_CHARACTERS = 4


class SkillRow(NamedTuple):
    """A skill, or a file that is not a valid skill."""

    name: str
    description: str
    """The description, or a sentence that says what is wrong with the file."""
    file: Path | None
    content: str = ""
    broken: bool = False
    untrusted: Skill | None = None
    """The skill, if it belongs to the project and is not trusted."""


class SkillsScreen(ListScreen[None, SkillRow]):
    """Lists all skills. Enter loads or unloads the one at the cursor; Escape closes the screen."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("f4,ctrl+g", "edit", "Edit"),
        ("ctrl+t", "new", "New"),
        ("enter", "take", "Load or unload"),  # while the preview has the focus
    ]

    def __init__(
        self,
        library: SkillLibrary,
        loaded: LoadedSkills,
        project: Path,
        open_file: Callable[[Path], None],
    ) -> None:
        """project: the folder whose ``.mahtab/skills`` gets new skills. open_file: opens a file in
        the user's editor; raises RuntimeError."""
        super().__init__()
        self._preview = MarkdownPreview(id="skill-preview")
        hint = "Enter loads, unloads · F4 edits · Ctrl+T new · Tab reads · Esc leaves"
        self.listing = Listing(self, "Skills", hint, "type to search", side=self._preview)
        self._library = library
        self._loaded = loaded
        self._project = project
        self._open_file = open_file
        self._found: list[SkillRow] = []
        self._found_for: str | None = None
        """The query that produced the shown skills; None while skills are read for the first
        time."""
        self._count = 0
        """The number of matching skills, listed or not."""
        self._names = 0
        """Columns for the names."""
        self._edits = self._edits_read = 0
        """The number of times the user edited a file, and how many of these edits the library has
        read."""
        self._reading = threading.Lock()
        self._edited: set[Path] = set()
        """Files that the user edited on this screen."""
        self._marked: frozenset[str] = frozenset()
        """Names of the loaded skills."""

    def on_mount(self) -> None:
        self._find(0)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_count)

    @property
    def _typed(self) -> str:
        return self.listing.typed.strip()

    # The rows

    def find(self) -> None:
        self._find(0)

    @work(exclusive=True, group="finding")
    async def _find(self, cursor: int | None) -> None:
        """Search on a thread, because the first search waits until all skills are read."""
        typed = self._typed
        found, count = await asyncio.to_thread(self._search, typed)
        if not is_being_removed(self) and typed == self._typed:
            self._found, self._found_for, self._count = found, typed, count
            self._names = min(_NAME, max((len(row.name) for row in found), default=0))
            self._fill(cursor)

    def _search(self, wanted: str) -> tuple[list[SkillRow], int]:
        """Return the matching skills, best first (by name if nothing was typed), then the invalid
        files; also return the number of matches."""
        with self._reading:  # a search on another thread waits, so that it finds the edits
            if self._edits_read < (edits := self._edits):
                self._library.invalidate()  # waits for a read that is under way
                self._edits_read = edits
                self._trust_edits()
        index = self._library.index()
        skills = self._library.skills()
        names = (
            [hit.name for hit in index.search(wanted, MAX_FOUND)]
            if wanted
            else sorted(skills)[:MAX_FOUND]
        )
        found = [
            SkillRow(name, skill.description, skill.file, skill.content)
            for name in names
            if (skill := skills.get(name)) is not None
        ]
        for skill in self._library.untrusted:
            if wanted.lower() in f"{skill.name} {skill.description}".lower():
                found.append(
                    SkillRow(
                        skill.name, skill.description, skill.file, skill.content, untrusted=skill
                    )
                )
        for sentence, file in self._library.broken.items():
            if wanted.lower() in sentence.lower():
                short = (
                    sentence
                    if file is None
                    else sentence.replace(str(file), _display_path(file, self._project), 1)
                )
                found.append(SkillRow(_skill_name(file), short, file, broken=True))
        return found, len(names) if wanted else len(skills)

    def _trust_edits(self) -> None:
        """Trust the user's own edits to a project skill that was trusted before."""
        self._library.skills()
        texts = {
            skill.file: instructions_text(skill)
            for skill in self._library.untrusted
            if skill.file in self._edited
        }
        with suppress(SettingsError):  # the skill stays untrusted, which is shown
            if texts:
                trust_texts(texts)
                self._library.invalidate()

    def rows(self, typed: str) -> Sequence[SkillRow]:
        self._marked = frozenset(self._loaded.names)
        return self._found

    def _fill(self, cursor: int | None = None) -> None:
        self.listing.fill(cursor)
        self._show_count()

    def _show_count(self) -> None:
        used, budget = self._loaded.used
        loaded = f"{len(self._marked)} loaded: {used:,} of {budget:,} characters (about {used // _TOKEN_CHARACTERS:,} tokens)"
        shown = f"the first {MAX_FOUND:,} of {self._count:,} · " if self._count > MAX_FOUND else ""
        self.listing.show_count(
            shown
            + (loaded if self.size.width >= 100 else f"{used:,} of {budget:,} characters loaded")
        )

    def line(self, row: SkillRow, width: int) -> Content:
        if row.untrusted is not None:
            mark = ("○ ", "$warning")
        else:
            mark = (
                ("✗ ", "$bad")
                if row.broken
                else ("● ", "$good")
                if row.name in self._marked
                else ("  ", "")
            )
        name, description = (plain(text).replace("\n", " ") for text in (row.name, row.description))
        untrusted = ("held back · ", "$warning") if row.untrusted is not None else ""
        return Content.assemble(
            mark, f"{name:<{self._names}}  ", untrusted, (description, "$muted")
        )

    def describe(self, row: SkillRow | None) -> Content:
        self._preview.show(
            ""
            if row is None
            else row.description
            if row.broken
            else f"{row.description}\n\n---\n\n{row.content}"
        )
        if row is None:
            nothing = (
                "No skill matches." if self._typed else "There are no skills. Ctrl+T creates one."
            )
            return Content("Reading the skills …" if self._found_for is None else nothing)
        size = "" if row.broken else f"{len(row.content):,} characters · "
        return Content.assemble(
            (plain(f"{size}{_display_path(row.file, self._project)}"), "$muted")
        )

    # Actions

    def take(self) -> None:
        self._do(self._load_or_unload, self._typed, self.listing.chosen)

    def action_edit(self) -> None:
        self._do(self._edit, self._typed, self.listing.chosen)

    @work
    async def _do(
        self, act: Callable[[SkillRow], Awaitable[None]], typed: str, chosen: SkillRow | None
    ) -> None:
        """Act on the skill that the user meant: the first match, if the list did not yet match the
        typed text."""
        if typed != self._found_for:
            found, _ = await asyncio.to_thread(self._search, typed)
            chosen = found[0] if found else None
        if chosen is not None and not is_being_removed(self):
            await act(chosen)

    async def _load_or_unload(self, row: SkillRow) -> None:
        if row.broken:
            self.listing.show_status("This file cannot be used: see what is wrong with it.")
            return
        if row.untrusted is not None:
            await self._offer_trust(row.untrusted)
            return
        loaded = row.name in self._loaded.names
        try:
            await asyncio.to_thread(self._loaded.unload if loaded else self._loaded.load, row.name)
        except (SkillNotFound, SkillsBudgetExceeded) as error:
            outcome, style = str(error), "$bad"
        else:
            how = (
                "is no longer loaded"
                if loaded
                else "is loaded: the model gets it with every question"
            )
            outcome, style = f"{row.name} {how}.", "$good"
        if not is_being_removed(self):
            self._fill()
            self.listing.show_status(outcome, style)

    async def _offer_trust(self, skill: Skill) -> None:
        """Ask whether to trust a project skill, with all its files as they are now."""
        texts = {
            **await asyncio.to_thread(skill_texts, skill),
            skill.file: instructions_text(skill),
        }

        def trust() -> None:
            try:
                trust_texts(texts)
            except SettingsError as error:
                self.listing.show_status(str(error), "$bad")
            self._library.invalidate()
            self._find(None)

        more = len(texts) - 1
        files = (
            ""
            if not more
            else " and its other file"
            if more == 1
            else f" and its {more} other files"
        )
        confirm(
            self.app,
            f"This project's skill {skill.name}{files}: let models use it as it is now?",
            trust,
            yes="Trust",
            no="Hold back",
        )

    def action_new(self) -> None:
        ask(self.app, Prompt("Name of the new skill: a-z, 0-9 and single hyphens"), self._create)

    @work
    async def _create(self, name: str) -> None:
        try:
            path = await asyncio.to_thread(create_skill, self._project / ".mahtab" / "skills", name)
        except SkillError as error:
            if not is_being_removed(self):
                self.listing.show_status(str(error))
            return
        if not is_being_removed(self):
            self.listing.set_text(name)
            self._edited.add(path)
            self._open(path)

    async def _edit(self, row: SkillRow) -> None:
        if row.file is None:
            self.listing.show_status("It has no file.")
        else:
            if row.untrusted is None:
                self._edited.add(row.file)
            self._open(row.file)

    def _open(self, file: Path) -> None:
        """Open a file in the editor, wait until the editor exits, and show the result."""
        try:
            self._open_file(file)
        except RuntimeError as error:
            self.listing.show_status(str(error))
        self._edits += 1
        self._find(None)


def _display_path(file: Path | None, project: Path) -> str:
    """Return an abbreviated path of a skill's file."""
    if file is None or file.is_relative_to(resource_folder("skills")):
        return "" if file is None else "bundled with the program"
    return short_path(str(file), project)


def _skill_name(file: Path | None) -> str:
    """Return the name that a file gives to its skill."""
    if file is None:
        return "?"
    return file.parent.name if file.stem == "SKILL" else file.stem
