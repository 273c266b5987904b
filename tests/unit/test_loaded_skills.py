"""Skills that stay loaded: a budget, the records of the bus, and files that change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.records import Record, get_record
from mahtab_tui.knowledge import library as library_module
from mahtab_tui.knowledge.library import (
    LoadedSkills,
    SkillLibrary,
    SkillNotFound,
    SkillsBudgetExceeded,
)
from mahtab_tui.knowledge.skills import SkillsLoader
from tests import tags
from tests.skills import write_skill


class Shelf(logging.Handler):
    """Two skills in a folder, and the records of what is done with them."""

    def __init__(self, folder: Path, budget: int = 1_000) -> None:
        super().__init__()
        self.folder = folder
        write_skill(folder, "tidy", content="Put things away.")
        write_skill(folder, "wash", content="Use warm water.")
        self.log, _ = setup_logging()
        self.log.addHandler(self)
        self.records: list[Record] = []
        self.library = SkillLibrary(SkillsLoader(folder), pytest.fail)
        self.loaded = LoadedSkills(lambda: self.library, budget, self.log)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(get_record(record))

    def skill_records(self) -> list[tuple[str, bool, int]]:
        """Return the records of skills on the bus."""
        return [
            (record.attrs["name"], record.attrs["loaded"], record.attrs["chars"])
            for record in self.records
            if record.tag == tags.SKILL
        ]

    def notices(self) -> list[str]:
        return [record.text for record in self.records if record.tag == tags.NOTICE]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr(library_module, "FRESH", -1.0)  # files are looked at each time
    return Shelf(tmp_path)


@pytest.fixture(autouse=True)
def closed(shelf: Shelf) -> object:
    yield
    close_logging(shelf.log)


def test_loaded_skills_are_announced_and_sent_to_the_model(shelf: Shelf) -> None:
    shelf.loaded.load("wash")
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    assert shelf.loaded.names == ["wash", "tidy"]
    assert shelf.loaded.instructions() == {"wash": "Use warm water.", "tidy": "Put things away."}
    assert shelf.skill_records() == [("wash", True, 15), ("tidy", True, 16)]


def test_unloaded_skills_are_no_longer_sent(shelf: Shelf) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.unload("tidy")
    assert (shelf.loaded.names, shelf.loaded.instructions()) == ([], {})
    assert shelf.skill_records()[-1] == ("tidy", False, 16)
    with pytest.raises(SkillNotFound, match=r"The skill 'tidy' is not loaded\. Loaded: none\."):
        shelf.loaded.unload("tidy")


def test_unknown_skill_is_not_loaded(shelf: Shelf) -> None:
    with pytest.raises(SkillNotFound, match="There is no skill 'iron'"):
        shelf.loaded.load("iron")
    assert shelf.skill_records() == []


def test_skill_over_the_budget_is_refused_with_the_sizes(shelf: Shelf) -> None:
    write_skill(shelf.folder, "long", content="x" * 990)
    shelf.loaded.load("tidy")
    with pytest.raises(
        SkillsBudgetExceeded,
        match=r"The skill long has 990 characters, but only 984 of the 1,000 for loaded skills are left\. Loaded: tidy \(16\)\.",
    ):
        shelf.loaded.load("long")
    assert shelf.loaded.names == ["tidy"]


def test_budget_can_be_used_up_and_a_growing_skill_reuses_its_own_share(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path, 40)
    try:
        shelf.loaded.load("tidy")
        shelf.loaded.load("wash")
        write_skill(shelf.folder, "tidy", content="x" * 25)
        assert shelf.loaded.instructions() == {"tidy": "x" * 25, "wash": "Use warm water."}
        assert shelf.loaded.used == (40, 40)
    finally:
        close_logging(shelf.log)


def test_resumed_session_reloads_its_skills(shelf: Shelf) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    shelf.loaded.unload("tidy")
    again = LoadedSkills(lambda: shelf.library, 1_000)
    for record in shelf.records:
        again.fold(record)
    assert again.instructions() == {"wash": "Use warm water."}


def test_changed_skill_is_sent_with_its_new_text(shelf: Shelf) -> None:
    shelf.loaded.load("tidy")
    write_skill(shelf.folder, "tidy", content="Throw things away.")
    assert shelf.loaded.instructions() == {"tidy": "Throw things away."}
    assert shelf.skill_records()[-1] == ("tidy", True, 18)


def test_skill_unloaded_while_being_read_stays_unloaded(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    read = shelf.library.instructions

    def unloaded_meanwhile(name: str) -> str:
        if "tidy" in shelf.loaded.names:
            shelf.loaded.unload("tidy")
        return read(name)

    monkeypatch.setattr(shelf.library, "instructions", unloaded_meanwhile)
    assert shelf.loaded.instructions() == {"wash": "Use warm water."}
    assert shelf.skill_records()[2:] == [("tidy", False, 16)]


@pytest.mark.parametrize("grown", [True, False])
def test_missing_or_oversized_skill_is_unloaded_with_a_notice(shelf: Shelf, grown: bool) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    if grown:
        write_skill(shelf.folder, "tidy", content="x" * 1_001)
    else:
        (shelf.folder / "tidy" / "SKILL.md").unlink()
    assert shelf.loaded.instructions() == {"wash": "Use warm water."}
    assert shelf.skill_records()[-1] == ("tidy", False, 16)
    [notice] = shelf.notices()
    assert notice.startswith(
        "The skill tidy is no longer loaded. The"
        if grown
        else "The skill tidy is no longer loaded. There is no skill"
    )
