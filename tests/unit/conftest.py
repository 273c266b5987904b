"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fake_claude import FakeClaude, InstallClaude
from tests.skills import trust_skills, write_skill

if TYPE_CHECKING:
    from mahtab_tui.llm.claude_cli import ChatClaudeCLI
    from tests.agents import RecordedSession
    from tests.recursion_scripts import ScriptedSearches
    from tests.unit.opened_notebook import OpenedNotebook


class Claude:
    """A fake `claude`, models that ask it, which are closed with the test, and their notices."""

    def __init__(self, install: InstallClaude) -> None:
        self.install = install
        self.models: list[ChatClaudeCLI] = []
        self.notices: list[str] = []

    def answers(self, *answers: str, **options: Any) -> FakeClaude:
        return self.install("answers", answers=answers, **options)

    def model(self, **fields: Any) -> ChatClaudeCLI:
        from mahtab_tui.llm.claude_cli import ChatClaudeCLI

        fields.setdefault("on_notice", lambda level, text: self.notices.append(text))
        self.models.append(ChatClaudeCLI(**{"timeout": 20.0, **fields}))
        return self.models[-1]


@pytest.fixture
def recorded_session(project: Path) -> Iterator[RecordedSession]:
    """A session without a screen; the test makes its agent."""
    from tests.agents import (
        RecordedSession,  # it loads the models' libraries, which most tests do without
    )

    recorded_session = RecordedSession(project)
    yield recorded_session
    recorded_session.session.close()


@pytest.fixture
def project_files(project: Path) -> None:
    """A source file and a trusted skill."""
    (project / "app.py").write_text("x = 1\ny = 2\n")
    write_skill(project / "skills", "tidy", "Tidy up", "Put things away.")
    trust_skills(project)


@pytest.fixture
def searches() -> Iterator[ScriptedSearches]:
    """Scripted searches; when they are closed, their events must make whole trees."""
    from tests.recursion_scripts import ScriptedSearches  # it loads the models' libraries, too

    searches = ScriptedSearches()
    yield searches
    searches.close()


@pytest.fixture
def claude(install_claude: InstallClaude) -> Iterator[Claude]:
    claude = Claude(install_claude)
    yield claude
    for llm in claude.models:
        llm.close()


@pytest.fixture
def open_notebook() -> Iterator[Callable[..., OpenedNotebook]]:
    """Opens a notebook over a bus."""
    # It loads nbformat, which most tests do without.
    from tests.unit.opened_notebook import OpenedNotebook

    opened: list[OpenedNotebook] = []

    def make(*arguments: Any, **options: Any) -> OpenedNotebook:
        opened.append(OpenedNotebook(*arguments, **options))
        return opened[-1]

    yield make
    for notebook in opened:
        notebook.close()
