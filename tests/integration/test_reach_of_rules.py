"""How much of what models answer runs without a question under ``allow: read_only``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.rights import verdict_of
from mahtab_tui.settings.approval_rules import rules_of
from tests.integration.kernels import RecordingHost

SESSIONS = Path(__file__).parents[1] / "data" / "sessions_of_models.md"
READ_ONLY = rules_of(("allow: read_only",))
AT_LEAST = 0.70


def sessions() -> Iterator[tuple[str, list[str]]]:
    """The question and the blocks of each session."""
    for session in SESSIONS.read_text("utf-8").split("\n# ")[1:]:
        yield session.partition("\n")[0], re.findall(r"```python\n(.*?)\n```", session, re.DOTALL)


def prepare(folder: Path) -> None:
    rows = [f"2026-0{1 + n % 3}-1{n % 9},{('Rome', 'Oslo', 'Lima')[n % 3]},{10 + n if n % 7 else ''},{1 + n % 4}" for n in range(60)]
    (folder / "orders.csv").write_text("\n".join(["date,city,price,quantity", *rows]))
    (folder / "notes.txt").write_text("The price of rice is a price. " * 200)
    (folder / "app.log").write_text("2026-01-01 10:00 ERROR E17\n2026-01-01 11:00 INFO I2\n" * 20)
    (folder / "config.json").write_text('{"server": {"port": 80, "names": ["a", "b"]}}')
    (folder / "src").mkdir()
    (folder / "src" / "shop.py").write_text("def total_price(x):\n    return x  # TODO\n")


@pytest.mark.slow
def test_most_of_what_models_answer_runs_without_a_question(project: Path) -> None:
    prepare(project)
    asked: list[Mapping[str, Any]] = []
    host = RecordingHost()

    def answer(name: str, args: Mapping[str, Any]) -> Any:
        if name != "effect":
            return None
        asked.append(args)
        return {"allowed": True, "all": False, "why": ""}

    host.answer = answer
    kernel = ProcessKernel(cwd=str(project))
    kernel.start(host)
    number = 1
    # A machine on which something was drawn before has the folders of matplotlib.
    kernel.execute("import matplotlib.pyplot as plt; plt.figure()", cell=number, on_output=lambda kind, text: None)
    free, asking, failed = 0, [], []
    for question, blocks in sessions():
        for code in blocks:
            number += 1
            before = len(asked)
            allowed = verdict_of(READ_ONLY, code).action == "allow"
            if allowed or not code.startswith(("%", "!")):
                result = kernel.execute(code, cell=number, on_output=lambda kind, text: None, limited=allowed)
                if allowed and result.status != "ok":
                    failed.append((question, result.output))
            if allowed and len(asked) == before:
                free += 1
            else:
                asking.append((question, code.splitlines()[0], [args["call"] for args in asked[before:]]))
    kernel.close()
    assert failed == []
    assert len(list(sessions())) >= 50
    assert free / (free + len(asking)) >= AT_LEAST, asking
