"""The model's cells and other agents' in one kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from mahtab_tui.bus import tags
from tests.integration.sessions import DEADLINE, Opened

CODE = "Here.\n\n```python\nmade = 1\n```\n"


def test_a_turn_that_is_stopped_while_an_agents_cell_runs_leaves_that_alone_and_runs_nothing(
    open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session(CODE, approval="auto")
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    agent = threading.Thread(target=lambda: it.session.cells.run(code, origin="assistant", party="codex", guest=0))
    agent.start()
    it.store.wait(tags.ASSISTANT_REPL_IN, party="codex")
    it.session.submit("ask", "make it")
    it.store.wait(tags.ASSISTANT_CHAT)
    assert it.session.stop() == "model"
    (project / "go").touch()
    agent.join(DEADLINE)
    it.store.wait(tags.AGENT, state="stopped")
    ran = [(record.attrs["party"], record.attrs["status"]) for record in it.store.records if record.tag == tags.ASSISTANT_REPL_OUT]
    assert ran == [("codex", "ok")]
