"""What a session that a program holds works with: bus, kernel, cells, and the agent's host over them. There is no screen."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.masking import Masking, Secrets
from mahtab_tui.bus.setup import close_logging, setup_logging
from mahtab_tui.kernel.base import Kernel, Variable
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import default_model, get_llm
from mahtab_tui.llm.spending import Spending
from mahtab_tui.session.cells import YOU, Cells
from mahtab_tui.session.face import NoFace
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.tool_calls import ToolCalls
from mahtab_tui.session.turns import TurnHost
from mahtab_tui.settings.model import load_settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.agent.repl_agent import ReplAgent


class ProgramHost(TurnHost):
    """The agent's host where code runs without asking. Of an earlier session it tells only what the program has loaded."""

    prior = ""

    def _prior(self) -> str:
        prior, self.prior = self.prior, ""
        return prior


class _KernelHost(SessionKernelHost):
    """Nobody is there to type an answer."""

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if name == "input":
            raise RuntimeError("input() has nobody to ask: this session has no screen.")
        return super().call(name, args)


class Workbench:
    """Over a namespace of the program's own, or over a kernel that it brings."""

    def __init__(self, namespace: dict[str, Any], kernel: Kernel | None, skills_dir: Path | None, listener: logging.Handler) -> None:
        self.namespace = namespace
        self.log, prompt = setup_logging()
        self.log.addHandler(listener)
        self._agent: ReplAgent | None = None
        settings = load_settings()
        self.secrets = Secrets(settings.secrets)
        self.log.addFilter(Masking(self.secrets))
        for sentence in settings.held_back:
            self.log.warning(sentence)
        spending = Spending(lambda: settings.max_usd)
        self.knowledge = Knowledge(
            self.log,
            self.log.warning,
            skills_dir=(skills_dir,) if skills_dir else settings.skills_dir,
            skills_of_project=skills_dir is None and settings.of_project("skills_dir"),
            skills_budget=settings.skills_budget,
            code_dir=settings.code_dir,
        )
        tool_calls = ToolCalls(lambda: self.knowledge.toolset)
        make_llm = partial(get_llm, timeout=settings.model_timeout, folder=lambda: self.kernel.info().cwd, **settings.model_access())
        self.searches = Searches(self.log, settings, model=self._model, make_llm=make_llm, spending=spending, asking="refuse", secrets=self.secrets)
        host = _KernelHost(
            self.log,
            NoFace(),
            secrets=self.secrets,
            ask=self._ask_from_cell,
            stop_asking=self._stop_asking,
            usage=spending.table,
            tools=tool_calls,
            searches=self.searches,
            current_cell=lambda: self.cells.last,
            guest_runs=lambda: False,
        )
        self.brought = kernel
        self.kernel: Kernel = MaskedKernel(InProcessKernel(namespace) if kernel is None else kernel, self.secrets)
        self.cells = Cells(self.kernel, self.log)
        self.cells.functions = lambda: tool_calls.names
        self.host = ProgramHost(self.log, self.kernel, self.cells, prompt, party=YOU, approval="auto", secrets=self.secrets, spending=spending)
        if kernel is None:
            self.kernel.start(host)

    def variables(self) -> list[Variable]:
        """All names of the namespace."""
        return self.kernel.variables()

    def adopt(self, agent: ReplAgent) -> None:
        """The agent that `ask()` in a cell asks."""
        self._agent = agent

    def close(self) -> None:
        """Let go of everything but the namespace, and a kernel that was brought."""
        if self._agent is not None:
            self._agent.close()
        if self.brought is None:
            self.kernel.close()
        self.searches.close()
        close_logging(self.log)

    def _model(self) -> str | BaseChatModel:
        """What searches are answered by: the agent's model, where there is an agent."""
        return default_model() if self._agent is None else self._agent.model

    def _ask_from_cell(self, prompt: str) -> str:
        if self.cells.assistant_runs:
            raise RuntimeError("ask() cannot be called by code that the model itself runs.")
        if self._agent is None:
            raise RuntimeError("ask() needs an agent: make one with create_repl_agent(session).")
        with self.host.asked_from_cell():
            try:
                return self._agent.ask_sync(prompt)
            except ModelError as error:
                raise RuntimeError(str(error)) from None

    def _stop_asking(self) -> None:
        if self._agent is not None:
            self._agent.stop()
