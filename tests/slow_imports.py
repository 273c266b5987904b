"""Starts the application many times with imports that take long now and then."""

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
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.database import History
from mahtab_tui.store.sqlite import MemoryStore
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_driver import StdioRedirect
from tests import tags

SHARE, LONGEST = 0.1, 0.02
"""Which share of all modules takes up to so many seconds more."""
NO_LIBRARIES = {"mahtab_tui", "tests", *sys.stdlib_module_names}
PATIENCE = 300.0
"""Seconds after which a run hangs."""


class SlowImports(importlib.abc.MetaPathFinder):
    """Lets modules take long, and writes down which thread has imported which library."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._begun = False
        """The screen has begun to import what it needs: other threads may import from now on."""
        self.libraries: dict[str, set[str]] = defaultdict(set)
        """By who imported them: `main` until the screen had its modules, `main later`, `others`
        until then, `others later`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if (
            spec is not None
            and (loader := spec.loader) is not None
            and hasattr(loader, "create_module")
        ):
            create, pause = (
                loader.create_module,
                self._random.random() * LONGEST if self._random.random() < SHARE else 0.0,
            )

            def slowly(spec: ModuleSpec) -> ModuleType | None:
                self._begun = self._begun or not IMPORTS._screen_is_done.is_set()
                if self._begun:
                    who = (
                        "main"
                        if threading.current_thread() is threading.main_thread()
                        else "others"
                    )
                    self.libraries[f"{who} later" if IMPORTS._screen_is_done.is_set() else who].add(
                        name.partition(".")[0]
                    )
                time.sleep(pause)
                return create(spec)

            loader.create_module = slowly  # type: ignore[method-assign]
        return spec

    def of_two(self) -> list[str]:
        """The libraries that the main thread and others may have imported at the same time: not
        Python's own, and none of ours."""
        main, later, others = (
            self.libraries["main"],
            self.libraries["main later"],
            self.libraries["others"],
        )
        both = ((main | later) & others) | (later & self.libraries["others later"])
        return sorted(both - NO_LIBRARIES)

    def early(self) -> list[str]:
        return sorted(self.libraries["others"] - NO_LIBRARIES)


async def _use(session: Session, app: MahtabApp, store: MemoryStore) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        session.agent.warm_up()
        session.submit("python", "total = 1 + 1\ntotal")
        session.submit("ask", "what is total?")
        answered = (tags.ASSISTANT_CHAT, tags.USER_REPL_OUT)
        until = time.monotonic() + PATIENCE
        while not set(answered) <= {record.tag for record in list(store.records)}:
            if time.monotonic() > until:
                raise TimeoutError(f"It hangs: {[record.tag for record in store.records]}")
            await pilot.pause(0.02)
        for _ in range(5):
            await pilot.pause(0.02)


def run_once(seed: int) -> dict[str, Any]:
    """One start in this process; what it came to."""
    slow, failures = SlowImports(seed), list[str]()
    threading.excepthook = lambda failed: failures.append(
        "".join(traceback.format_exception(failed.exc_value)) if failed.exc_value else "?"
    )
    sys.meta_path.insert(0, slow)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        os.chdir(folder)
        store = MemoryStore()
        session = Session(
            load_settings(model="demo", approval="auto", reflection="never"),
            InProcessKernel({}),
            HeadlessFrontend(),
            store=store,
        )
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
    os.dup2(2, 1)  # what a cell prints while the session closes is none of the lines
    os.write(lines, json.dumps(run_once(int(sys.argv[1]))).encode() + b"\n")
