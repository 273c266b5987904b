"""Records of a session, always the same, and the application over them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from mahtab_tui.bus.records import Record, emit
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import Settings
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until

MakeApp = Callable[..., MahtabApp]
IDLE = {
    "state": "idle",
    "python": "3.12.1",
    "executable": "/home/ada/sales/.venv/bin/python",
    "cwd": "/home/ada/sales",
    "pid": 1,
}
CODE = 'daily = df.groupby("day").revenue.sum()\nz = (daily - daily.median()) / daily.std()\noutliers = daily[z.abs() > 3]\noutliers'
OUTPUT = "day\n2026-03-14    48211.50\n2026-03-29      112.00\nName: revenue, dtype: float64\n"
SEARCH = 'print(grep(log, "2026-03-29.*(ERROR|timeout)", context=1))'

_BLOCK = {"turn": 1, "step": 1, "block": 0, "blocks": 1, "party": "claude"}
WAITING = made(tags.APPROVAL, SEARCH, {"request": "1", "state": "waiting", **_BLOCK}, 1.0)

QUEUED = made(
    tags.QUEUE, "", {"items": [{"id": 1, "code": "never = 1", "mode": "python", "party": ""}]}, 1.0
)


def change(
    name: str, type: str, summary: str, change_kind: str = "added", **fields: str
) -> dict[str, Any]:
    return {
        "name": name,
        "change": change_kind,
        "type": type,
        "summary": summary,
        "kind": "data",
        **fields,
    }


def sales_records() -> Iterator[Record]:
    """A question, half answered: the last block of code waits."""

    def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
        return made(tag, text, attrs, 1.0)

    turn = {"turn": 1, "party": "claude"}
    yield record(tags.SESSION, name="sales-march", model="claude:sonnet", approval="ask")
    yield record(tags.KERNEL, **IDLE)
    early = [
        change("n", "int", "42"),
        change("path", "PosixPath", "data/sales.csv"),
        change("log", "str", "18.4 M chars"),
    ]
    yield record(tags.NAMESPACE, cell=1, party="you", fresh=False, changes=early)
    you = {"cell": 3, "party": "you"}
    yield record(tags.USER_REPL_IN, 'df = pd.read_csv("sales.csv")\ndf.shape', **you)
    end = {"status": "ok", "duration": 0.08, "kinds": [["value", 11]]}
    yield record(tags.USER_REPL_OUT, "(10000, 5)\n", **you, **end)
    frame = [change("df", "DataFrame", "10000 × 5")]
    yield record(tags.NAMESPACE, **you, fresh=False, changes=frame)
    yield record(tags.USER_CHAT, "which days are outliers, and why?", turn=1)
    answer = f"I'll compare each day with the **median** of all days.\n\n```python\n{CODE}\n```\n"
    yield record(tags.ASSISTANT_CHAT, answer, **turn, step=0, stopped=False)
    block = {**turn, "cell": 4, "step": 0, "block": 0}
    yield record(tags.ASSISTANT_REPL_IN, CODE, **block)
    end = {"status": "ok", "duration": 0.21, "kinds": [["value", len(OUTPUT)]]}
    yield record(tags.ASSISTANT_REPL_OUT, OUTPUT, **block, **end)
    lengths = {"daily": 31, "z": 31, "outliers": 2}
    changes = [change(name, "Series", f"float64 ({n},)") for name, n in lengths.items()]
    yield record(tags.NAMESPACE, cell=4, party="claude", fresh=False, changes=changes)
    usage_fields = {"input_tokens": 11_900, "output_tokens": 512, "cost": 0.031}
    yield record(tags.USAGE, model="sonnet", source="agent", **usage_fields)
    second = f"Two days stand out. To see what happened on the 29th I'd search the log:\n\n```python\n{SEARCH}\n```\n"
    yield record(tags.ASSISTANT_CHAT, second, **turn, step=1, stopped=False)


class ScriptedSession(Session):
    """A session without a kernel."""

    def __init__(self, settings: Settings, records: Sequence[Record]) -> None:
        super().__init__(settings, ProcessKernel(), HeadlessFrontend(), name="sales-march")
        self._records = records
        self.emitted = False

    def start(self) -> None:
        _ = self.cells
        for record in self._records:
            # The namespace is old, because changed rows fade; all else is new, because old
            # questions wait no longer.
            self.log_record(record, 1.0 if record.tag == tags.NAMESPACE else time.time())
        self.emitted = True

    def log_record(self, record: Record, when: float) -> None:
        emit(self.log, record.changed(time=when))


def scripted(pilot: Pilot[int]) -> tuple[MahtabApp, ScriptedSession]:
    app = pilot.app
    assert isinstance(app, MahtabApp)
    assert isinstance(app.session, ScriptedSession)
    return app, app.session


async def drawn(pilot: Pilot[int]) -> None:
    app, session = scripted(pilot)
    # Textual sets the focus, and calls what follows the first picture, later than requested.
    await until(pilot, lambda: session.emitted and app.focused is not None)
    app.record_pump.flush()
    await pilot.pause()


async def press_up_to(pilot: Pilot[int], key: str) -> None:
    """Mark the entry with this key in the transcript."""
    pane = pilot.app.query_one(TranscriptPane)
    pane.focus()
    await pilot.pause()
    while pane.marker.marked is None or pane.marker.marked.key != key:
        await pilot.press("up")


async def log(pilot: Pilot[int], *records: Record, when: float | None = None) -> None:
    """Log records, now or at a given time, and draw them."""
    for record in records:
        scripted(pilot)[1].log_record(record, time.time() if when is None else when)
    await drawn(pilot)


def notices(pilot: Pilot[Any]) -> list[str]:
    return [notice.message for notice in pilot.app._notifications]


async def wait_for_notice(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: any(words in notice for notice in notices(pilot)))


@asynccontextmanager
async def showing(app: MahtabApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await drawn(pilot)
        yield pilot
