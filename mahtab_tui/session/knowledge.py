"""The skills, instructions, tools and MCP servers of a session. Each part is made when it is needed
first."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Usage, emit, warn
from mahtab_tui.llm.ledger import Ledger
from mahtab_tui.session.embedding_model import EmbeddingModel
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.settings.sources import SettingsError, home_folder, project_folder
from mahtab_tui.system import Lazy, start_thread

if TYPE_CHECKING:
    from mahtab_tui.knowledge.instructions import FoundInstructions
    from mahtab_tui.knowledge.library import SkillLibrary
    from mahtab_tui.knowledge.loaded_skills import LoadedSkills
    from mahtab_tui.knowledge.semantic_index import SemanticIndex
    from mahtab_tui.llm.background import ListedServer
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.tools import Toolset


class Knowledge:
    """The skills, instructions, source search, tools and MCP servers of a session."""

    def __init__(self, runtime: Runtime, spending: Ledger) -> None:
        """Read nothing yet. spending: limits and counts what embeddings cost."""
        self._runtime = runtime
        self._spending = spending
        self._instructions_lock = threading.Lock()
        self._instructions: FoundInstructions | None = None
        self._skills = Lazy(self._make_skills)
        self._toolset = Lazy(self._make_toolset)
        self._semantic_index = Lazy(self._make_semantic_index)
        self._servers = Lazy(self._make_servers)

    def start(self) -> None:
        """Read the skills and the instructions, on a thread."""

        def load() -> None:
            self.skills.index()
            self.read_instructions()

        start_thread("skills", load)

    def read_instructions(self) -> FoundInstructions:
        """Read the instructions; tell the user once what is untrusted or unreadable."""
        from mahtab_tui.knowledge.instructions import FoundInstructions, find_instructions

        no_instructions = FoundInstructions((), ())
        with self._instructions_lock:
            earlier = self._instructions or no_instructions
            instructions = no_instructions
            # A `SettingsError` means that the folder was deleted.
            with suppress(SettingsError):
                instructions = find_instructions(project_folder())
            self._instructions = instructions

        for problem in instructions.problems:
            if problem not in earlier.problems:
                self._warn(problem)
        for file in instructions.untrusted:
            if file not in earlier.untrusted:
                self._warn(
                    f"{file.name} in this project does not go to the model until you trust it:"
                    " /instructions shows it."
                )
        return instructions

    @property
    def skills(self) -> SkillLibrary:
        """The skills in all folders."""
        return self._skills.get()

    def _make_skills(self) -> SkillLibrary:
        from mahtab_tui.knowledge.library import SkillLibrary
        from mahtab_tui.knowledge.skills_loader import SkillsLoader, skill_folders

        is_from_project = self._runtime.settings.is_from_project("skills_dir")
        folders = skill_folders(
            project_folder(), self._runtime.settings.skills_dir, of_project=is_from_project
        )
        return SkillLibrary(SkillsLoader(*folders), self._warn, self.semantic_index)

    @property
    def loaded(self) -> LoadedSkills:
        """The skills whose instructions the model gets."""
        return self.toolset.loaded

    @property
    def toolset(self) -> Toolset:
        """What models and cells can call, and what models are told about it."""
        return self._toolset.get()

    def _make_toolset(self) -> Toolset:
        from mahtab_tui.knowledge.loaded_skills import LoadedSkills
        from mahtab_tui.tools import Toolset

        loaded_skills = LoadedSkills(
            lambda: self.skills, self._runtime.settings.skills_budget, self._runtime.log
        )
        for record in self._runtime.past:
            loaded_skills.fold(record)
        return Toolset(
            self._runtime.settings.code_dir,
            self.skills,
            loaded_skills,
            self._warn,
            lambda: self.read_instructions().texts(),
            self._listed_servers,
        )

    @property
    def semantic_index(self) -> SemanticIndex | None:
        """None if no embedding model is set. The first search loads the model."""
        if not self._runtime.settings.embedding_model:
            return None
        return self._semantic_index.get()

    def _make_semantic_index(self) -> SemanticIndex:
        from mahtab_tui.knowledge.semantic_index import SemanticIndex

        settings = self._runtime.settings
        model = EmbeddingModel(
            settings.embedding_model or "",
            self._spending,
            self._count_usage,
            base_url=settings.base_url,
            api_keys=settings.model_access()["api_keys"],
            timeout=settings.model_timeout,
        )
        return SemanticIndex(model, self._runtime.secrets.redact_for_model, self._warn)

    def _count_usage(self, usage: Usage) -> None:
        self._spending.count(usage)
        emit(self._runtime.log, usage)

    @property
    def servers(self) -> Servers | None:
        """None if there are none. This starts no server."""
        if not self._runtime.settings.mcp:
            return None
        return self._servers.get()

    def _make_servers(self) -> Servers:
        import builtins

        from mahtab_tui.servers.servers import Servers
        from mahtab_tui.servers.state import SavedLogins
        from mahtab_tui.worker.tools.toolbox import NAMES

        # A server's name becomes a variable, which must not hide what is there.
        tool_names = [name for tool in self.toolset.tools.values() for name in tool.names]
        reserved_names = frozenset({*dir(builtins), *NAMES, *tool_names, "tools", "ToolFailed"})
        logins_file = None if self._runtime.no_trace else home_folder() / "mcp_logins.json"
        return Servers(
            self._runtime.settings.mcp,
            project_folder(),
            self._warn,
            logins=SavedLogins(logins_file, self._runtime.secrets.add),
            reserved=reserved_names,
        )

    def _listed_servers(self) -> list[ListedServer]:
        from mahtab_tui.llm.background import ListedServer

        if self.servers is None:
            return []
        return [
            ListedServer(state.python, state.sentence, state.used_tools())
            for state in self.servers.states.values()
        ]

    def close(self) -> None:
        """Stop the MCP servers, and wait for them briefly."""
        if self._servers.made:
            self._servers.get().close()

    def _warn(self, problem: str) -> None:
        warn(self._runtime.log, problem)
