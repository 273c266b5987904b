"""Start the application while some imports are slow."""

from __future__ import annotations

import asyncio
import importlib.abc
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.input_history import History
from mahtab_tui.store.memory_store import MemoryStore
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_driver import StdioRedirect
from tests import tags

SHARE = 0.1
LONGEST = 0.02
"""The share of slow modules, and the most seconds that one takes longer."""
NO_LIBRARIES = {"mahtab_tui", "tests", *sys.stdlib_module_names}
PATIENCE = 300.0
"""Seconds after which a run counts as hanging."""


class SlowImports(importlib.abc.MetaPathFinder):
    """Slow down modules, and record which thread imported which library."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._begun = False
        """True once the screen imports its modules: other threads may import from then on."""
        self.libraries: dict[str, set[str]] = defaultdict(set)
        """By thread: `main` and `others` until the screen has its modules, then `main later` and
        `others later`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if (
            spec is not None
            and (loader := spec.loader) is not None
            and hasattr(loader, "create_module")
        ):
            create = loader.create_module
            pause = self._random.random() * LONGEST if self._random.random() < SHARE else 0.0

            def slowly(spec: ModuleSpec) -> ModuleType | None:
                later = IMPORTS._screen_is_done.is_set()
                self._begun = self._begun or not later
                if self._begun:
                    main = threading.current_thread() is threading.main_thread()
                    importer = ("main" if main else "others") + (" later" if later else "")
                    self.libraries[importer].add(name.partition(".")[0])
                time.sleep(pause)
                return create(spec)

            loader.create_module = slowly  # type: ignore[method-assign]
        return spec

    def of_two(self) -> list[str]:
        """Return the libraries that the main thread and others may have imported at the same time,
        but for the standard library and our modules."""
        main = self.libraries["main"]
        later = self.libraries["main later"]
        both = ((main | later) & self.libraries["others"]) | (
            later & self.libraries["others later"]
        )
        return sorted(both - NO_LIBRARIES)

    def early(self) -> list[str]:
        return sorted(self.libraries["others"] - NO_LIBRARIES)


async def _use(session: Session, app: MahtabApp, store: MemoryStore) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        session.agent.warm_up()
        session.submit("python", "total = 1 + 1\ntotal")
        session.submit("ask", "what is total?")
        end = time.monotonic() + PATIENCE
        while not {tags.ASSISTANT_CHAT, tags.USER_REPL_OUT} <= {r.tag for r in store.records}:
            if time.monotonic() > end:
                raise TimeoutError(f"It hangs: {[record.tag for record in store.records]}")
            await pilot.pause(0.02)
        for _ in range(5):
            await pilot.pause(0.02)


def run_once(seed: int) -> dict[str, Any]:
    """Start the application once in this process, and return the results."""
    slow = SlowImports(seed)
    failures = list[str]()
    threading.excepthook = lambda failed: failures.append(
        "".join(traceback.format_exception(failed.exc_value)) if failed.exc_value else "?"
    )
    sys.meta_path.insert(0, slow)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        os.chdir(folder)
        store = MemoryStore()
        settings = load_settings(model="demo", approval="auto", reflection="never")
        session = Session(settings, InProcessKernel({}), HeadlessFrontend(), store=store)
        history = History(Path(folder, "history.db"), folder)
        try:
            asyncio.run(
                _use(session, MahtabApp(session, StdioRedirect(failures.append), history), store)
            )
        except BaseException:
            failures.append(traceback.format_exc())
        session.close()
        history.close()
        failures += [
            record.text
            for record in store.records
            if record.tag == tags.NOTICE and record.attrs.get("level") == "error"
        ]
    return {
        "seed": seed,
        "failures": failures,
        "of_two": slow.of_two(),
        "early": slow.early(),
        "others": len(slow.libraries["others later"]),
    }


if __name__ == "__main__":
    lines = os.dup(1)
    os.dup2(2, 1)  # cells may print while the session closes
    os.write(lines, json.dumps(run_once(int(sys.argv[1]))).encode() + b"\n")
