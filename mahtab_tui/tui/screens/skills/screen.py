"""All skills under a line that searches them, and what the chosen one says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widgets import OptionList, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.library import NoSkill, SkillLibrary
from mahtab_tui.knowledge.loaded import LoadedSkills, OverBudget
from mahtab_tui.knowledge.new_skill import create_skill
from mahtab_tui.knowledge.skills import SkillError
from mahtab_tui.settings import resource_folder
from mahtab_tui.tui.screens.listing import Listing
from mahtab_tui.tui.screens.prompt import Prompt
from mahtab_tui.tui.screens.skills.preview import Preview
from mahtab_tui.tui.widgets.line import Line

FOUND = 200
"""Skills that a search shows at the most."""
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
    HINT = "Enter loads, unloads · F4 edits · Ctrl+T new · Tab reads · Esc leaves"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [("f4,ctrl+g", "edit", "Edit"), ("ctrl+t", "new", "New"), ("enter", "take", "Load or unload")]

    def __init__(self, library: SkillLibrary, loaded: LoadedSkills, project: Path, open_file: Callable[[Path], None]) -> None:
        """project: in whose ``.mahtab/skills`` new ones are made. open_file: opens one in the person's editor; raises RuntimeError."""
        super().__init__()
        self._library = library
        self._loaded = loaded
        self._project = project
        self._open_file = open_file
        self._found: list[SkillRow] = []
        self._ready = False
        """The skills have been read."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large listing"):
            with Horizontal(classes="listing-title"):
                yield Static(self.TITLE, markup=False)
                yield Static(classes="listing-count", markup=False)
            yield Line(placeholder="type to search", compact=True)
            with Container(id="skills-body"):
                found = OptionList(compact=True, markup=False)
                found.can_focus = False
                yield found
                yield Preview(id="skill-preview")
            yield Static(classes="listing-about", markup=False)
            yield Static(classes="listing-said", markup=False)
            yield Static(self.HINT, classes="quiet", markup=False)

    def on_mount(self) -> None:
        self.find()

    # What is shown

    def find(self) -> None:
        self._find_anew()

    @work(exclusive=True)
    async def _find_anew(self) -> None:
        await self._find(0)

    async def _find(self, highlighted: int | None) -> None:
        """Search on a thread: also the first time, while the skills are still being read."""
        wanted = self.wanted
        found = await asyncio.to_thread(self._search, wanted)
        if self.is_attached and wanted == self.wanted:
            self._found, self._ready = found, True
            self.fill(highlighted)

    def _search(self, wanted: str) -> list[SkillRow]:
        """All by name, or those that are found, the best first; then those that cannot be used."""
        index = self._library.index()
        skills = self._library.skills()
        names = [hit.name for hit in index.search(wanted, FOUND)] if wanted else sorted(skills)
        found = [SkillRow(name, skill.description, skill.file, skill.content) for name in names if (skill := skills.get(name)) is not None]
        for sentence, file in self._library.broken.items():
            if wanted.lower() in sentence.lower():
                short = sentence if file is None else sentence.replace(str(file), _where(file, self._project), 1)
                found.append(SkillRow(_name_of(file), short, file, broken=True))
        return found

    def rows(self, wanted: str) -> Sequence[SkillRow]:
        return self._found

    def fill(self, highlighted: int | None = None) -> None:
        super().fill(highlighted)
        used, budget = self._loaded.used
        loaded = f"{len(self._loaded.names)} loaded: {used:,} of {budget:,} characters (about {used // _LETTERS_OF_A_TOKEN:,} tokens)"
        self.count(loaded if self.size.width >= 100 else f"{used:,} of {budget:,} characters loaded")
        self._show()

    def line(self, row: SkillRow, width: int) -> Content:
        mark = ("✗ ", "$bad") if row.broken else ("● ", "$good") if row.name in self._loaded.names else "  "
        name = min(_NAME, max(len(each.name) for each in self._found))
        return Content.assemble(mark, f"{plain(row.name):<{name}}  ", (plain(row.description).replace("\n", " "), "$muted"))

    def about(self, row: SkillRow | None) -> Content:
        if row is None:
            nothing = "No skill has anything of this." if self.wanted else "There are no skills. Ctrl+T begins one."
            return Content(nothing if self._ready else "The skills are being read …")
        size = "" if row.broken else f"{len(row.content):,} characters · "
        return Content.assemble((plain(f"{size}{_where(row.file, self._project)}"), "$muted"))

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        """What the skill at the cursor says."""
        row = self.chosen
        text = "" if row is None else row.description if row.broken else f"{row.description}\n\n---\n\n{row.content}"
        self.query_one(Preview).show(text)

    # What is done

    def take(self, row: SkillRow) -> None:
        self._change(row)

    def action_take(self) -> None:
        """Enter, while the text has the focus."""
        self._take()

    @work
    async def _change(self, row: SkillRow) -> None:
        """Load it, or unload it."""
        if row.broken:
            self.say("It cannot be used as it is.")
            return
        loaded = row.name in self._loaded.names
        try:
            await asyncio.to_thread(self._loaded.unload if loaded else self._loaded.load, row.name)
        except (NoSkill, OverBudget) as error:
            said, style = str(error), "$bad"
        else:
            how = "is no longer loaded" if loaded else "is loaded: the model is told it with every question"
            said, style = f"{row.name} {how}.", "$good"
        if self.is_attached:
            self.fill()
            self.say(said, style)

    def action_edit(self) -> None:
        row = self.chosen
        if row is not None and row.file is not None:
            self.app.call_later(self._edit, row.file)  # not within the key's own event: the screen would not be drawn anew
        elif row is not None:
            self.say("It has no file.")

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
            if self.is_attached:
                self.say(str(error))
            return
        if self.is_attached:
            self.query_one(Line).value = name
            self._edit(path)

    def _edit(self, file: Path) -> None:
        said = ""
        try:
            self._open_file(file)
        except RuntimeError as error:
            said = str(error)
        self._read_anew(said)

    @work(exclusive=True)
    async def _read_anew(self, said: str) -> None:
        self._library.renew()
        await self._find(None)
        if self.is_attached:
            self.say(said)


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
