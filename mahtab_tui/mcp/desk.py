"""One agent's desk: the tools, and the place where its code runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.mcp import evaluation, information
from mahtab_tui.mcp.commands import run_command
from mahtab_tui.mcp.environments import NoEnvironment, find_environment
from mahtab_tui.mcp.evaluation import EvalArguments
from mahtab_tui.mcp.journal import Journal, log_file
from mahtab_tui.mcp.look import Look
from mahtab_tui.mcp.packages import NoCommand, plan
from mahtab_tui.mcp.place import Place, Report
from mahtab_tui.mcp.private import PrivatePlace
from mahtab_tui.mcp.results import Activated, LogState, PackageReport, Workers
from mahtab_tui.mcp.toolbox import ActivateArguments, LogArguments, NoArguments, PackageArguments, toolbox
from mahtab_tui.mcp.tools import Answer, Tool, ToolError

PACKAGE_OUTPUT = 20_000
"""Characters of a package manager's output that an answer holds."""


class Desk:
    """The tools of one server. Used on its event loop."""

    def __init__(self, python: str | None, cwd: str, look: Look, journal: Journal) -> None:
        self._look = look
        self._journal = journal
        self.place: Place = PrivatePlace(python, cwd, look.colour, journal)
        self.mode: Literal["private", "shared"] = "private"
        self.tools: dict[str, Tool[Any]] = {tool.name: tool for tool in toolbox(self)}

    async def close(self) -> None:
        """End what was started."""
        await self.place.close()
        self._journal.set_mode("off")

    async def eval(self, arguments: EvalArguments, report: Report) -> Answer:
        done = await self.place.evaluate(arguments.code, arguments.timeout_s, report)
        return evaluation.answer(done, arguments, self._look)

    async def reset(self, arguments: NoArguments, report: Report) -> Answer:
        old, new = await self.place.reset(report)
        kernel = await self.place.kernel()
        data = Workers(old_worker=old, new_worker=new, executable=kernel.executable)
        return Answer(f"The namespace is empty. Worker {old} is gone, worker {new} runs on {kernel.executable}.", data)

    async def info(self, arguments: NoArguments, report: Report) -> Answer:
        return information.answer(await self.place.inside(), self.mode)

    async def activate(self, arguments: ActivateArguments, report: Report) -> Answer:
        kernel = await self.place.kernel()
        try:
            found = find_environment(arguments.path, Path(kernel.cwd))
        except NoEnvironment as error:
            raise ToolError(str(error)) from None
        python = None if found.python is None else str(found.python)
        now = await self.place.activate(python, None if found.folder is None else str(found.folder), report)
        data = Activated(kind=found.kind, path=str(found.path), python=now.python, executable=now.executable, cwd=now.cwd, worker=now.pid)
        kept = "" if python is not None else " It has no environment of its own: the interpreter stays."
        return Answer(f"Activated the {found.kind} {found.path}: Python {now.python}, {now.executable}, in {now.cwd}.{kept}", data)

    async def pkg(self, arguments: PackageArguments, report: Report) -> Answer:
        kernel = await self.place.kernel()
        try:
            steps = plan(arguments.action, arguments.packages, kernel.executable, Path(kernel.cwd))
        except NoCommand as error:
            raise ToolError(str(error)) from None
        if arguments.action != "status":
            await self.place.permit(f"pkg {' '.join([arguments.action, *arguments.packages])}", report)
        written: list[str] = []
        code = 0
        start = time.monotonic()
        for command in steps.commands:
            line = f"$ {' '.join(command)}\n"
            written.append(line)
            await report(time.monotonic() - start, line.strip())
            try:
                code = await run_command(command, steps.cwd, steps.environment, written.append)
            except OSError as error:
                raise ToolError(f"{command[0]} cannot be started: {error.strerror}.") from None
            if code:
                break
        await self.place.renewed()
        output = plain("".join(written))
        data = PackageReport(
            action=arguments.action,
            commands=[" ".join(command) for command in steps.commands],
            exit_code=code,
            output=evaluation.shortened(output, PACKAGE_OUTPUT)[0],
            note=steps.note,
        )
        ending = f"It failed with exit code {code}." if code else steps.note
        return Answer("\n".join(part for part in (self._look.output(data.output), ending) if part), data, failed=code != 0)

    async def log_viewer(self, arguments: LogArguments, report: Report) -> Answer:
        try:
            self._journal.set_mode(arguments.mode)
        except OSError as error:
            raise ToolError(f"{log_file()} cannot be written: {error.strerror}.") from None
        path = str(log_file())
        text = "Nothing is written any more." if arguments.mode == "off" else f"Everything that is evaluated is written to {path}: tail -f {path}"
        return Answer(text, LogState(mode=self._journal.mode, path=path))
