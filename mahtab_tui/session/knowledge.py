"""What a session knows beside its conversation: skills, instructions, tools and MCP servers. Each is
made when it is needed first, because most take long to import or to read."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Usage, emit, warn
from mahtab_tui.llm.ledger import Ledger
from mahtab_tui.session.embedding_model import EmbeddingModel
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.settings.files import SettingsError, home_folder, project_folder
from mahtab_tui.system import Lazy, start_thread

if TYPE_CHECKING:
    from mahtab_tui.knowledge.instructions import FoundInstructions
    from mahtab_tui.knowledge.library import SkillLibrary
    from mahtab_tui.knowledge.loaded_skills import LoadedSkills
    from mahtab_tui.knowledge.semantic_index import SemanticIndex
    from mahtab_tui.llm.background import ListedServer
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.tools.toolset import Toolset


class Knowledge:
    """The skills, instructions, source search, tools and MCP servers of a session."""

    def __init__(self, runtime: Runtime, spending: Ledger) -> None:
        """Read nothing yet.

        Args:
            runtime: What the session works with.
            spending: Limits and counts what embeddings cost.
        """
        self._runtime = runtime
        self._spending = spending
        self._instructions_lock = threading.Lock()
        self._instructions: FoundInstructions | None = None
        self._skills = Lazy(self._make_skills)
        self._toolset = Lazy(self._make_toolset)
        self._semantic_index = Lazy(self._make_semantic_index)
        self._servers = Lazy(self._make_servers)

    def start(self) -> None:
        """Begin to read the skills and the instructions, on a thread, so that the first question
        need not wait for them."""

        def load() -> None:
            self.skills.index()
            self.read_instructions()

        start_thread("skills", load)

    def read_instructions(self) -> FoundInstructions:
        """Read the instructions of the user and of the project, which may have changed since.

        Tells the user once of each file that cannot be read, or is not trusted yet. Any thread may
        call it.
        """
        from mahtab_tui.knowledge.instructions import FoundInstructions, find_instructions

        no_instructions = FoundInstructions((), ())
        with self._instructions_lock:
            last_instructions = self._instructions or no_instructions
            instructions = no_instructions
            # A `SettingsError` means that the folder was deleted.
            with suppress(SettingsError):
                instructions = find_instructions(project_folder())
            self._instructions = instructions

        for problem in instructions.problems:
            if problem not in last_instructions.problems:
                self._warn(problem)
        for file in instructions.untrusted:
            if file not in last_instructions.untrusted:
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
        return SkillLibrary(
            SkillsLoader(*folders), on_problem=self._warn, meaning=self.semantic_index
        )

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
        from mahtab_tui.tools.toolset import Toolset

        loaded_skills = LoadedSkills(
            lambda: self.skills, self._runtime.settings.skills_budget, self._runtime.log
        )
        # What was loaded when the session was left stays loaded.
        for record in self._runtime.past:
            loaded_skills.fold(record)
        return Toolset(
            self._runtime.settings.code_dir,
            self.skills,
            loaded_skills,
            on_problem=self._warn,
            instructions=lambda: self.read_instructions().texts(),
            servers=self._listed_servers,
        )

    @property
    def semantic_index(self) -> SemanticIndex | None:
        """Finds skills and source by meaning; None if no embedding model is set.

        Its first search loads the model.
        """
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
        # Whatever is embedded goes to the model's service.
        return SemanticIndex(model, self._runtime.secrets.redact_for_model, self._warn)

    def _count_usage(self, usage: Usage) -> None:
        self._spending.count(usage)
        emit(self._runtime.log, usage)

    @property
    def servers(self) -> Servers | None:
        """The MCP servers, which start when they are first used; None if none is set."""
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
        logins_file: Path | None = home_folder() / "mcp_logins.json"
        if self._runtime.no_trace:
            logins_file = None
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
            ListedServer(name=state.variable, about=state.summary, used=state.called_tool_lines())
            for state in self.servers.states.values()
        ]

    def close(self) -> None:
        """Stop the MCP servers, and wait for them briefly."""
        if self._servers.made:
            self._servers.get().close()

    def _warn(self, problem: str) -> None:
        warn(self._runtime.log, problem)
