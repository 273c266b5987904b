"""An engine for tests of the names in a sandbox."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from mahtab_tui.worker.sandbox.names import SandboxText, make_names

LOG = "".join(
    f"2026-03-01 12:00:{n % 60:02d} {'ERROR' if n % 10 == 3 else 'INFO'} request id=r{n} took {n} ms\n"
    for n in range(200)
)


class Engine:
    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer or (lambda part: {"text": f"of {part}", "failed": False})
        self._lock = threading.Lock()

    def call(self, name: str, args: dict[str, Any]) -> Any:
        args = json.loads(json.dumps(args))
        with self._lock:
            self.calls.append((name, args))
        return {"answers": [self._answer(part) for part in args["parts"]]}

    def send(self, name: str, args: dict[str, Any]) -> None:
        self.notifications.append((name, json.loads(json.dumps(args))))


def names(
    text: str = LOG,
    engine: Engine | None = None,
    kind: str = "str",
    parts: Sequence[tuple[str, int, int]] = (),
    contexts: Sequence[Any] = (),
    **options: Any,
) -> dict[str, Any]:
    searched_text = SandboxText(text, kind, parts, contexts)
    return make_names(searched_text, engine or Engine(), **options)
