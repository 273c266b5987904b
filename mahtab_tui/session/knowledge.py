"""The skills, source and tools of a session, and its embedding model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Usage, emit, warn
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.ledger import Ledger, OverBudget
from mahtab_tui.llm.prices import LOCAL, price
from mahtab_tui.llm.token_estimates import estimate_message_tokens
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.settings.sources import SettingsError, home_folder, project_folder
from mahtab_tui.system import IMPORTS, Lazy, start_thread

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

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
        self._runtime = runtime
        self._spending = spending
        self._instructions_lock = threading.Lock()
        self._instructions: FoundInstructions | None = None
        self._skills = Lazy(self._make_skills)
        self._toolset = Lazy(self._make_toolset)
        self._semantic_index = Lazy(self._make_semantic_index)
        self._servers = Lazy(self._make_servers)

    def start(self) -> None:
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


class EmbeddingModel:
    """LangChain's `Embeddings` within a budget, loaded on first use."""

    def __init__(
        self,
        spec: str,
        spending: Ledger,
        on_usage: Callable[[Usage], None],
        *,
        base_url: str | None = None,
        api_keys: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        """Create a model without loading it.

        Args:
            spec: ``provider:model``, as `init_embeddings` takes it.
            spending: The budget, which limits its calls.
            on_usage: Called with the usage of each call.
            base_url: The address of a service that speaks OpenAI's protocol.
            api_keys: Keys by provider, which the environment's keys override; only that of OpenAI is
                passed on, because the packages of others read their own environment variables.
            timeout: Seconds for a call to OpenAI or Ollama; the packages of others have their own.
        """
        self._provider, _, self._model = spec.strip().partition(":")
        self._base_url = base_url if self._provider == "openai" else None
        self._spending = spending
        self._on_usage = on_usage
        self._timeout = timeout
        key_name = "openai_compatible" if self._base_url else self._provider
        configured_key = (api_keys or {}).get(key_name, "")
        self._key = os.environ.get(f"{key_name.upper()}_API_KEY") or configured_key
        self._inner = Lazy(self._make)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return self._call(texts, lambda model: model.embed_documents(list(texts)))

    def embed_query(self, text: str) -> list[float]:
        return self._call([text], lambda model: [model.embed_query(text)])[0]

    def _call(
        self, texts: Sequence[str], call: Callable[[Embeddings], list[list[float]]]
    ) -> list[list[float]]:
        """Embed texts within the budget. Raises `ModelError`."""
        # LangChain drops the service's count of tokens, so they are estimated.
        tokens = estimate_message_tokens(texts)
        provider = self._base_url or self._provider
        if self._provider == "ollama":
            provider = LOCAL
        cost = price(provider, self._model, tokens, 0)
        usage = Usage(
            model=f"{self._provider}:{self._model}",
            input_tokens=tokens,
            cost=cost,
            source="embedding",
            estimated=True,
        )
        try:
            with self._spending.within_limit(self._model, lambda: cost):
                vectors = call(self._inner.get())
                self._on_usage(usage)
        except OverBudget as error:
            raise ModelError(str(error)) from None
        except Exception as error:  # the provider's code
            raise explain_error(error, secret=self._key, timeout=self._timeout) from None
        if len(vectors) != len(texts) or not all(vectors):
            raise ModelError("The service sent something that is not an embedding.")
        return vectors

    def _make(self) -> Embeddings:
        """Load the model's package and create its client. Raises `ModelError`."""
        options: dict[str, Any] = {}
        if self._provider == "openai":
            options = {
                "timeout": self._timeout,
                "max_retries": 1,
                # It would download a table of tokens; our texts are short.
                "check_embedding_ctx_length": False,
                "api_key": self._key or "none",
            }
            if self._base_url:
                options["base_url"] = self._base_url
        elif self._provider == "ollama":
            options = {"client_kwargs": {"timeout": self._timeout}}
        try:
            with IMPORTS.turn():
                import numpy  # noqa: F401 - what its vectors are compared with
                from langchain.embeddings import init_embeddings

                return init_embeddings(self._model, provider=self._provider, **options)
        except ImportError:
            raise ModelError(
                f"embedding_model needs packages that are not installed: pip install langchain numpy langchain-{self._provider}"
            ) from None
        except Exception as error:  # an unknown provider, or the package's own checks
            reason = str(explain_error(error, secret=self._key))
            raise ModelError(
                f"The embedding model {self._provider}:{self._model} cannot be used. {reason}"
            ) from None
