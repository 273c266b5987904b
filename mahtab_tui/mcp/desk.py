"""One agent's desk: the tools, and the place where its code runs."""

from __future__ import annotations

from typing import Any

from mahtab_tui.mcp import evaluation
from mahtab_tui.mcp.evaluation import EvalArguments
from mahtab_tui.mcp.look import Look
from mahtab_tui.mcp.place import Place, Report
from mahtab_tui.mcp.private import PrivatePlace
from mahtab_tui.mcp.results import Evaluation
from mahtab_tui.mcp.tools import Answer, Tool


class Desk:
    """The tools of one server. Used on its event loop."""

    def __init__(self, python: str | None, cwd: str, look: Look | None = None) -> None:
        self._look = look or Look()
        self._place: Place = PrivatePlace(python, cwd, self._look.colour)
        self.tools: dict[str, Tool[Any]] = {tool.name: tool for tool in self._made()}

    async def close(self) -> None:
        """End what was started."""
        await self._place.close()

    def _made(self) -> list[Tool[Any]]:
        return [
            Tool(
                "eval",
                "Run Python",
                "Run Python in a session that keeps its state from call to call: variables, imports, functions. The answer holds the last "
                "expression's value, then what was printed, then the error, then what changed in the namespace. Show the person the code "
                "readably before you call this.",
                EvalArguments,
                Evaluation,
                self._eval,
                destructive=True,
            )
        ]

    async def _eval(self, arguments: EvalArguments, report: Report) -> Answer:
        done = await self._place.evaluate(arguments.code, arguments.timeout_s, report)
        return evaluation.answer(done, arguments, self._look)
