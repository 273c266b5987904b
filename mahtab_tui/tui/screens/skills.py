"""The screen of all skills."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.library import (
    LoadedSkills,
    SkillLibrary,
    SkillNotFound,
    SkillsBudgetExceeded,
)
from mahtab_tui.knowledge.skills import Skill, instructions_text, skill_texts, trust_texts
from mahtab_tui.settings.model import SettingsError, resource_folder
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView
from mahtab_tui.tui.screens.dialog import confirm
from mahtab_tui.tui.screens.listing import OTHER, SearchScreen, short_path
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import Palette

LONGEST = 20_000


class MarkdownRows(list[Row]):
    source = ""

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = Markdown(palette).document(plain(self.source), max(8, width - EDGE - RIGHT))


class MarkdownPreview(RowsView, can_focus=True):
    bars = True

    def __init__(self) -> None:
        self.rows = MarkdownRows()
        super().__init__(self.rows, id="skill-preview")

    def show(self, source: str) -> None:
        if (more := len(source) - LONGEST) > 0:
            source = f"{source[:LONGEST]}\n\n*… {more:,} characters more.*"
        if source != self.rows.source:
            self.rows.source = source
            self.scroll_to(y=0, animate=False, force=True)
            self.reload()


MAX_FOUND = 500
_NAME = 24
_TOKEN_CHARACTERS = 4


class SkillRow(NamedTuple):
    name: str
    description: str
    file: Path | None
    content: str = ""
    broken: bool = False
    untrusted: Skill | None = None


class SkillsScreen(SearchScreen[None, SkillRow]):
    heading_text = "Skills"
    hint = "Enter loads, unloads · Tab reads · Esc leaves"
    placeholder = "type to search"

    def __init__(self, library: SkillLibrary, loaded: LoadedSkills, project: Path) -> None:
        super().__init__()
        self.companion = self._preview = MarkdownPreview()
        self._library = library
        self._loaded = loaded
        self._project = project
        self._count: int | None = None
        self._names = 0
        self._marked: frozenset[str] = frozenset()

    def on_mount(self) -> None:
        self.find(pause=0)

    def show_found(self, found: tuple[list[SkillRow], int], cursor: int | None) -> None:
        self.found, self._count = found
        self._names = min(_NAME, max((len(row.name) for row in self.found), default=0))
        self._fill(cursor)

    def search(self, wanted: str) -> tuple[list[SkillRow], int]:
        index, skills = self._library.index(), self._library.skills()
        if wanted:
            names = [hit.name for hit in index.search(wanted, MAX_FOUND)]
        else:
            names = sorted(skills)[:MAX_FOUND]
        found = [
            SkillRow(name, skill.description, skill.file, skill.content)
            for name in names
            if (skill := skills.get(name)) is not None
        ]
        found += [
            SkillRow(each.name, each.description, each.file, each.content, untrusted=each)
            for each in self._library.untrusted
            if wanted.lower() in f"{each.name} {each.description}".lower()
        ]
        for sentence, file in self._library.broken.items():
            if wanted.lower() in sentence.lower():
                name = "?"
                if file is not None:
                    sentence = sentence.replace(str(file), _display_path(file, self._project), 1)
                    name = file.parent.name if file.stem == "SKILL" else file.stem
                found.append(SkillRow(name, sentence, file, broken=True))
        return found, len(names) if wanted else len(skills)

    def _fill(self, cursor: int | None = None) -> None:
        self._marked = frozenset(self._loaded.names)
        self.fill(cursor)
        self._show_count()

    def _show_count(self) -> None:
        used, budget = self._loaded.used
        count = f"{len(self._marked)} loaded: {used:,} of {budget:,} characters (about {used // _TOKEN_CHARACTERS:,} tokens)"
        if (self._count or 0) > MAX_FOUND:
            count = f"the first {MAX_FOUND:,} of {self._count:,} · {count}"
        self.show_count(count)

    def line(self, row: SkillRow, width: int) -> Content:
        mark, state = ("● ", "$good") if row.name in self._marked else OTHER, ""
        if row.untrusted is not None:
            mark, state = ("○ ", "$warning"), "held back · "
        elif row.broken:
            mark = ("✗ ", "$bad")
        name, description = (plain(text).replace("\n", " ") for text in (row.name, row.description))
        name = f"{name:<{self._names}}  "
        return Content.assemble(mark, name, (state, "$warning"), (description, "$muted"))

    def describe(self, row: SkillRow | None) -> Content:
        if row is None:
            self._preview.show("")
            if self._count is None:
                return Content("Reading the skills …")
            nothing = "There are no skills. mahtab-tui skills new NAME creates one."
            return Content("No skill matches." if self.typed else nothing)
        content = "" if row.broken else f"\n\n---\n\n{row.content}"
        self._preview.show(f"{row.description}{content}")
        size = "" if row.broken else f"{len(row.content):,} characters · "
        return Content.styled(plain(f"{size}{_display_path(row.file, self._project)}"), "$muted")

    @work
    async def choose(self, row: SkillRow) -> None:
        if row.broken:
            self.show_status("This file cannot be used: see what is wrong with it.")
            return
        if row.untrusted is not None:
            await self._offer_trust(row.untrusted)
            return
        change, how = self._loaded.load, "is loaded: the model gets it with every question"
        if row.name in self._loaded.names:
            change, how = self._loaded.unload, "is no longer loaded"
        outcome, style = f"{row.name} {how}.", "$good"
        try:
            await asyncio.to_thread(change, row.name)
        except (SkillNotFound, SkillsBudgetExceeded) as error:
            outcome, style = str(error), "$bad"
        if not is_being_removed(self):
            self._fill()
            self.show_status(outcome, style)

    async def _offer_trust(self, skill: Skill) -> None:
        others = await asyncio.to_thread(skill_texts, skill)
        texts = {**others, skill.file: instructions_text(skill)}

        def trust() -> None:
            try:
                trust_texts(texts)
            except SettingsError as error:
                self.show_status(str(error), "$bad")
            self._library.invalidate()
            self.find(None, pause=0)

        more = len(texts) - 1
        files = f" and its {more} other files" if more > 1 else " and its other file" * more
        question = f"This project's skill {skill.name}{files}: let models use it as it is now?"
        confirm(self.app, question, trust, yes="Trust", no="Hold back")


def _display_path(file: Path | None, project: Path) -> str:
    if file is None:
        return ""
    bundled = file.is_relative_to(resource_folder("skills"))
    return "bundled with the program" if bundled else short_path(str(file), project)
