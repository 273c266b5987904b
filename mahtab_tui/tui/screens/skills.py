"""The screen of all skills: searches them, shows one, and loads it for the model.

A skill is a Markdown text with instructions, which the model gets once it is loaded. Skills of a project
are held back until the user trusts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.loaded_skills import LoadedSkills, SkillsBudgetExceeded
from mahtab_tui.knowledge.skill_file import Skill, instructions_text
from mahtab_tui.knowledge.skill_trust import skill_texts, trust_texts
from mahtab_tui.settings.model import SettingsError, resource_folder
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView
from mahtab_tui.tui.screens.dialog import confirm
from mahtab_tui.tui.screens.listing import NO_MARK, SearchScreen, short_path
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import Palette

MAX_PREVIEW_CHARS = 20_000
"""Characters of a skill that are shown."""
MAX_SKILLS = 500
"""Skills that are listed."""
MAX_NAME_WIDTH = 24
"""The width that the column of names has at most, in cells."""
CHARS_PER_TOKEN = 4
"""About how many characters a token has in English."""


class MarkdownRows(list[Row]):
    """The rows of a Markdown text."""

    source = ""

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = MarkdownRenderer(palette).document(
            plain(self.source), max(8, width - EDGE - RIGHT)
        )


class MarkdownPreview(RowsView, can_focus=True):
    """Shows the beginning of a Markdown text."""

    ALLOW_SELECT: ClassVar[bool] = True

    bars = True

    def __init__(self) -> None:
        self.rows = MarkdownRows()
        super().__init__(self.rows, id="skill-preview")

    def show(self, source: str) -> None:
        hidden_chars = len(source) - MAX_PREVIEW_CHARS
        if hidden_chars > 0:
            source = f"{source[:MAX_PREVIEW_CHARS]}\n\n*… {hidden_chars:,} characters more.*"
        if source != self.rows.source:
            self.rows.source = source
            self.scroll_to(y=0, animate=False, force=True)
            self.reload()


class SkillRow(NamedTuple):
    """A line of the list: a skill, or a file that is broken."""

    name: str
    description: str
    """If the file is broken, the sentence that says so."""
    file: Path | None
    content: str = ""
    broken: bool = False
    untrusted: Skill | None = None
    """The skill, if it is held back until the user trusts it."""


class SkillHits(NamedTuple):
    """The skills to list."""

    rows: list[SkillRow]
    total: int
    """How many skills there are; during a search, how many were found."""


class SkillsScreen(SearchScreen[None, SkillRow, SkillHits]):
    """Lists skills, shows the chosen one, and loads it for the model."""

    heading_text = "Skills"
    hint = "Enter loads, unloads · Tab reads · Esc leaves"
    placeholder = "type to search"

    def __init__(self, library: SkillLibrary, loaded: LoadedSkills, project: Path) -> None:
        super().__init__()
        self.companion = self._preview = MarkdownPreview()
        self._library = library
        self._loaded = loaded
        self._project = project
        self._total: int | None = None
        """None until the skills have been read."""
        self._name_width = 0
        self._loaded_names: frozenset[str] = frozenset()

    def on_mount(self) -> None:
        self.find(pause=0)

    def show_results(self, hits: SkillHits, cursor: int | None) -> None:
        self.hits = hits.rows
        self._total = hits.total
        self._name_width = min(MAX_NAME_WIDTH, max((len(row.name) for row in self.hits), default=0))
        self._fill(cursor)

    def search(self, query: str) -> SkillHits:
        index = self._library.index()
        skills = self._library.skills()
        if query:
            names = [hit.name for hit in index.search(query, MAX_SKILLS)]
            total = len(names)
        else:
            names = sorted(skills)[:MAX_SKILLS]
            total = len(skills)

        rows = []
        for name in names:
            skill = skills.get(name)
            if skill is not None:
                rows.append(SkillRow(name, skill.description, skill.file, skill.content))
        rows += self._untrusted_rows(query.lower())
        rows += self._broken_rows(query.lower())
        return SkillHits(rows, total)

    def _untrusted_rows(self, query: str) -> Iterator[SkillRow]:
        for skill in self._library.untrusted:
            if query in f"{skill.name} {skill.description}".lower():
                yield SkillRow(
                    skill.name, skill.description, skill.file, skill.content, untrusted=skill
                )

    def _broken_rows(self, query: str) -> Iterator[SkillRow]:
        for problem, file in self._library.broken.items():
            if query not in problem.lower():
                continue
            name = "?"
            if file is not None:
                problem = problem.replace(str(file), _display_path(file, self._project), 1)
                name = file.parent.name if file.stem == "SKILL" else file.stem
            yield SkillRow(name, problem, file, broken=True)

    def _fill(self, cursor: int | None = None) -> None:
        self._loaded_names = frozenset(self._loaded.names)
        self.fill(cursor)
        self._show_count()

    def _show_count(self) -> None:
        used_chars, max_chars = self._loaded.used
        tokens = used_chars // CHARS_PER_TOKEN
        size = f"{used_chars:,} of {max_chars:,} characters (about {tokens:,} tokens)"
        count = f"{len(self._loaded_names):,} loaded: {size}"
        if (self._total or 0) > MAX_SKILLS:
            count = f"the first {MAX_SKILLS:,} of {self._total:,} · {count}"
        self.show_count(count)

    def line(self, row: SkillRow, width: int) -> Content:
        state = ""
        if row.untrusted is not None:
            mark = ("○ ", "$warning")
            state = "held back · "
        elif row.broken:
            mark = ("✗ ", "$bad")
        elif row.name in self._loaded_names:
            mark = ("● ", "$good")
        else:
            mark = NO_MARK
        name = plain(row.name).replace("\n", " ")
        description = plain(row.description).replace("\n", " ")
        name = f"{name:<{self._name_width}}  "
        return Content.assemble(mark, name, (state, "$warning"), (description, "$muted"))

    def describe(self, row: SkillRow | None) -> Content:
        if row is None:
            self._preview.show("")
            if self._total is None:
                return Content("Reading the skills …")
            if self.typed:
                return Content("No skill matches.")
            return Content("There are no skills. mahtab-tui skills new NAME creates one.")

        path = _display_path(row.file, self._project)
        if row.broken:
            self._preview.show(row.description)
            return Content.styled(plain(path), "$muted")
        self._preview.show(f"{row.description}\n\n---\n\n{row.content}")
        return Content.styled(plain(f"{len(row.content):,} characters · {path}"), "$muted")

    @work
    async def choose(self, row: SkillRow) -> None:
        if row.broken:
            self.show_status("This file cannot be used: see what is wrong with it.")
            return
        if row.untrusted is not None:
            await self._offer_trust(row.untrusted)
            return
        if row.name in self._loaded.names:
            change = self._loaded.unload
            outcome = f"{row.name} is no longer loaded."
        else:
            change = self._loaded.load
            outcome = f"{row.name} is loaded: the model gets it with every question."
        style = "$good"
        try:
            await asyncio.to_thread(change, row.name)
        except (SkillNotFound, SkillsBudgetExceeded) as error:
            outcome = str(error)
            style = "$bad"
        if not is_being_removed(self):
            self._fill()
            self.show_status(outcome, style)

    async def _offer_trust(self, skill: Skill) -> None:
        """Ask whether models may get a skill, with all its files as they are now."""
        # All files are trusted as they are now, even if they change while the dialog is open.
        other_texts = await asyncio.to_thread(skill_texts, skill)
        texts = {**other_texts, skill.file: instructions_text(skill)}

        def trust() -> None:
            try:
                trust_texts(texts)
            except SettingsError as error:
                self.show_status(str(error), "$bad")
            self._library.invalidate()
            self.find(None, pause=0)

        other_count = len(texts) - 1
        if other_count > 1:
            files = f" and its {other_count:,} other files"
        elif other_count == 1:
            files = " and its other file"
        else:
            files = ""
        question = f"This project's skill {skill.name}{files}: let models use it as it is now?"
        confirm(self.app, question, trust, yes="Trust", no="Hold back")


def _display_path(file: Path | None, project: Path) -> str:
    if file is None:
        return ""
    if file.is_relative_to(resource_folder("skills")):
        return "bundled with the program"
    return short_path(str(file), project)
