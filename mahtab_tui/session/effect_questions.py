"""Answers the kernel when a limited cell is about to change something outside the namespace; asks the user where no rule decides."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.records import Approval
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.requests import RequestCancelled, UserRequests, ask_about
from mahtab_tui.session.rights import Rights, decision_on, effect_call
from mahtab_tui.settings.approval_rules import Rule

_LONGEST = 20_000
"""Characters of a call that the user can be asked about."""
_WHAT = {
    "files": "changes a file",
    "programs": "starts or ends a program",
    "connections": "uses the network",
    "this process": "changes the kernel's process",
}
_INSIDE = "reaches native code, or Python's own inside"


@dataclass(eq=False, repr=False)
class EffectQuestions:
    """Knows the rights of limited cells, and asks the user about effects that these do not cover."""

    _log: logging.Logger
    _kernel: Kernel
    _cells: Cells
    _approvals: UserRequests[Decision]
    _rules: Callable[[], tuple[Rule, ...]]
    _stop: Callable[[], object]
    """Stops the model's turn."""
    _: KW_ONLY
    can_ask: bool
    """Whether there is a user who can answer."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}
        """The cells of the questions that wait, by request."""
        self._cells.interrupted.append(self.cancel)

    def answer(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a kernel's question whether an effect is allowed."""
        cell, kind, name, line = int(args["cell"]), str(args["kind"]), str(args["call"]), int(args["line"])
        arguments = list(args["arguments"])
        rights = self._cells.rights.get(cell, Rights())
        action, why = decision_on(self._rules(), rights, kind, effect_call(name, arguments), self._kernel.info().cwd)
        if action == "allow":
            return _answer(True)
        text = visible(f"{name}({', '.join(map(repr, arguments))})")
        if action == "refuse":
            return _answer(False, why=f"{text} was not run. {why}")
        if not self.can_ask:
            return _answer(False, why=f"{text} was not run: the rules do not allow it, and there is nobody to ask.")
        if len(text) > _LONGEST:
            return _answer(False, why=f"{name} was not run: its arguments are too long for the user to read.")
        return self._ask(cell, line, kind, text, why)

    def cancel(self, cell: int | None = None) -> None:
        """Withdraw the questions of a cell, or all: nobody waits for the answers any more."""
        with self._lock:
            requests = [request for request, of in self._open.items() if cell in (None, of)]
        for request in requests:
            self._approvals.cancel(request)

    def _ask(self, cell: int, line: int, kind: str, text: str, rule: str) -> dict[str, Any]:
        party = self._cells.party_of(cell)
        place = f"cell {cell} of {party}" + (f", line {line}," if line else "")
        why = f"{place} {_WHAT.get(kind, _INSIDE)}" + (f"; {rule}" if rule else "")
        request = f"effect-{next(self._numbers)}"
        about = Approval(text, request=request, party=party, is_code=False, why=why, effect=kind)
        with self._lock:
            self._open[request] = cell
        try:
            decision = ask_about(self._log, self._approvals, about, self._stop)
        except RequestCancelled:
            return _answer(False, why=f"{text} was not run: the cell was stopped before the user had decided.")
        finally:
            with self._lock:
                self._open.pop(request, None)
        if isinstance(decision, str):
            return _answer(False, why=f"The user did not allow {text}{decision}")
        return _answer(True, all=decision.action == "all")


def _answer(allowed: bool, *, all: bool = False, why: str = "") -> dict[str, Any]:
    return {"allowed": allowed, "all": all, "why": why}
