"""All skills under a line that searches them, and what the chosen one says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import OptionList, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.library import NoSkill, SkillLibrary
from mahtab_tui.knowledge.loaded import LoadedSkills, SkillsBudgetExceeded
from mahtab_tui.knowledge.new_skill import create_skill
from mahtab_tui.knowledge.skills import SkillError
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.screens.listing import Listing
from mahtab_tui.tui.screens.prompt import Prompt
from mahtab_tui.tui.screens.skills.preview import Preview
from mahtab_tui.tui.textual_fixes.options import Options
from mahtab_tui.tui.widgets.line import Line

FOUND = 500
"""Skills that are shown at the most."""
_NAME = 24
"""Columns of a name at the most, where there are longer ones: descriptions begin in one column."""
_LETTERS_OF_A_TOKEN = 4


class SkillRow(NamedTuple):
    """A skill in the list, or one that cannot be used."""

    name: str
    description: str
    """Or what is wrong with it, in a sentence."""
    file: Path | None
    content: str = ""
    broken: bool = False


class SkillsScreen(Listing[SkillRow, None]):
    """Enter loads the skill at the cursor into the session, or unloads it; Escape leaves."""

    TITLE = "Skills"
    PLACEHOLDER = "type to search"
    HINT = "Enter loads, unloads · F4 edits · Ctrl+T new · Tab reads · Esc leaves"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [("f4,ctrl+g", "edit", "Edit"), ("ctrl+t", "new", "New"), ("enter", "take", "Load or unload")]

    def __init__(self, library: SkillLibrary, loaded: LoadedSkills, project: Path, open_file: Callable[[Path], None]) -> None:
        """project: in whose ``.mahtab/skills`` new ones are made. open_file: opens one in the user's editor; raises RuntimeError."""
        super().__init__()
        self._library = library
        self._loaded = loaded
        self._project = project
        self._open_file = open_file
        self._found: list[SkillRow] = []
        self._found_for: str | None = None
        """What was typed when they were looked for; None while the skills are read for the first time."""
        self._count = 0
        """How many there are, also of those that are not shown."""
        self._names = 0
        """Columns of the names."""
        self._edits = self._edits_read = 0
        """How often a file was open in the editor, and up to which of these the files were read."""
        self._marked: frozenset[str] = frozenset()
        """Those that are loaded."""

    def body(self, found: Options) -> ComposeResult:
        with Container(id="skills-body"):
            yield found
            yield Preview(id="skill-preview")
        yield Static(classes="listing-about", markup=False)

    def on_mount(self) -> None:
        self.find()

    # What is shown

    def find(self) -> None:
        self._find_anew()

    @work(exclusive=True, group="finding")
    async def _find_anew(self) -> None:
        await self._find(0)

    async def _find(self, highlighted: int | None) -> None:
        """Search on a thread: also the first time, while the skills are still being read."""
        wanted = self.wanted
        found, count = await asyncio.to_thread(self._search, wanted)
        if not self.leaves and wanted == self.wanted:
            self._found, self._found_for, self._count = found, wanted, count
            self._names = min(_NAME, max((len(row.name) for row in found), default=0))
            self.fill(highlighted)

    def _search(self, wanted: str) -> tuple[list[SkillRow], int]:
        """All by name, or those that are found, the best first, then those that cannot be used; and how many there are of the first."""
        if self._edits_read < (edits := self._edits):
            self._library.renew()  # it waits for those that are just being read
            self._edits_read = edits
        index = self._library.index()
        skills = self._library.skills()
        names = [hit.name for hit in index.search(wanted, FOUND)] if wanted else sorted(skills)[:FOUND]
        found = [SkillRow(name, skill.description, skill.file, skill.content) for name in names if (skill := skills.get(name)) is not None]
        for sentence, file in self._library.broken.items():
            if wanted.lower() in sentence.lower():
                short = sentence if file is None else sentence.replace(str(file), _where(file, self._project), 1)
                found.append(SkillRow(_name_of(file), short, file, broken=True))
        return found, len(names) if wanted else len(skills)

    def rows(self, wanted: str) -> Sequence[SkillRow]:
        return self._found

    def fill(self, highlighted: int | None = None) -> None:
        self._marked = frozenset(self._loaded.names)
        super().fill(highlighted)
        used, budget = self._loaded.used
        loaded = f"{len(self._marked)} loaded: {used:,} of {budget:,} characters (about {used // _LETTERS_OF_A_TOKEN:,} tokens)"
        shown = f"the first {FOUND:,} of {self._count:,} · " if self._count > FOUND else ""
        self.count(shown + (loaded if self.size.width >= 100 else f"{used:,} of {budget:,} characters loaded"))
        self._show()

    def line(self, row: SkillRow, width: int) -> Content:
        mark = ("✗ ", "$bad") if row.broken else ("● ", "$good") if row.name in self._marked else "  "
        name, description = (plain(text).replace("\n", " ") for text in (row.name, row.description))
        return Content.assemble(mark, f"{name:<{self._names}}  ", (description, "$muted"))

    def about(self, row: SkillRow | None) -> Content:
        if row is None:
            nothing = "No skill matches." if self.wanted else "There are no skills. Ctrl+T begins one."
            return Content("The skills are being read …" if self._found_for is None else nothing)
        size = "" if row.broken else f"{len(row.content):,} characters · "
        return Content.assemble((plain(f"{size}{_where(row.file, self._project)}"), "$muted"))

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        """What the skill at the cursor says."""
        row = self.chosen
        text = "" if row is None else row.description if row.broken else f"{row.description}\n\n---\n\n{row.content}"
        self.query_one(Preview).show(text)

    # What is done

    def _take(self) -> None:
        self._do(self._change, self.wanted, self.chosen)

    def action_take(self) -> None:
        """Enter, while the text has the focus."""
        self._take()

    def action_edit(self) -> None:
        self._do(self._edit, self.wanted, self.chosen)

    @work
    async def _do(self, act: Callable[[SkillRow], Awaitable[None]], wanted: str, chosen: SkillRow | None) -> None:
        """Act on the skill that a key was meant for: where what is typed was still looked for then, on the first that is found."""
        if wanted != self._found_for:
            found, _ = await asyncio.to_thread(self._search, wanted)
            chosen = found[0] if found else None
        if chosen is not None and not self.leaves:
            await act(chosen)

    async def _change(self, row: SkillRow) -> None:
        """Load it, or unload it."""
        if row.broken:
            self.say("It cannot be used as it is.")
            return
        loaded = row.name in self._loaded.names
        try:
            await asyncio.to_thread(self._loaded.unload if loaded else self._loaded.load, row.name)
        except (NoSkill, SkillsBudgetExceeded) as error:
            said, style = str(error), "$bad"
        else:
            how = "is no longer loaded" if loaded else "is loaded: the model is told it with every question"
            said, style = f"{row.name} {how}.", "$good"
        if not self.leaves:
            self.fill()
            self.say(said, style)

    def action_new(self) -> None:
        def named(name: str | None) -> None:
            if name:
                self._create(name)

        self.app.push_screen(Prompt("Name of the new skill: a-z, 0-9 and single hyphens"), named)

    @work
    async def _create(self, name: str) -> None:
        """Make it from the template, and open it."""
        try:
            path = await asyncio.to_thread(create_skill, self._project / ".mahtab" / "skills", name)
        except SkillError as error:
            if not self.leaves:
                self.say(str(error))
            return
        if not self.leaves:
            line = self.query_one(Line)
            line.value, line.cursor_position = name, len(name)
            self._open(path)

    async def _edit(self, row: SkillRow) -> None:
        if row.file is None:
            self.say("It has no file.")
        else:
            self._open(row.file)

    def _open(self, file: Path) -> None:
        """Open a file in the editor until that ends, and show what it has saved."""
        try:
            self._open_file(file)
        except RuntimeError as error:
            self.say(str(error))
        self._edits += 1
        self._read_anew()

    @work(exclusive=True, group="finding")
    async def _read_anew(self) -> None:
        await self._find(None)


def _where(file: Path | None, project: Path) -> str:
    """A file in short."""
    if file is None or file.is_relative_to(resource_folder("skills")):
        return "" if file is None else "bundled with the program"
    for folder, short in ((project, "."), (Path.home(), "~")):
        if file.is_relative_to(folder):
            return f"{short}/{file.relative_to(folder)}"
    return str(file)


def _name_of(file: Path | None) -> str:
    """As which a file would be a skill."""
    if file is None:
        return "?"
    return file.parent.name if file.stem == "SKILL" else file.stem
