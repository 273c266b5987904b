"""Pictures of the transcript."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.transcript_app import PaneApp, shown

ANSWER = """Two days are **far** from the *median* of their weekday; see `daily` and [the manual](https://example.org/median).

1. Sum the revenue of each day.
2. Compare with the median, a robust measure: a few wild days would pull the mean towards themselves.
   - nested, with `code`

| day | revenue | why |
|:----|--------:|-----|
| 2026-03-14 | 48211.50 | a campaign in the north |
| 2026-03-29 | 112.00 | database timeout |

> Somebody said so.

```sql
SELECT day, sum(revenue) FROM sales GROUP BY day; -- all
```

```python
outliers = daily[z.abs() > 3]  # three deviations
f"{outliers!r}"
```
"""

TRACEBACK = """Traceback (most recent call last):
  File "<cell 1>", line 1, in <module>
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero
"""

CHANGES = [
    {"name": "daily", "change": "added", "type": "Series", "summary": "(31,)"},
    {"name": "df", "change": "perhaps", "type": "DataFrame", "summary": "10000 × 5"},
    {"name": "tmp", "change": "deleted", "type": "", "summary": ""},
]


def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
    """Time in the past: nothing in the picture depends on the clock."""
    return made(tag, text, attrs)


SESSION = [
    record(tags.USER_REPL_IN, "1 / 0", cell=1, party="you"),
    record(
        tags.USER_REPL_OUT,
        TRACEBACK,
        cell=1,
        status="error",
        duration=0.002,
        kinds=[["traceback", len(TRACEBACK)]],
    ),
    record(tags.USER_REPL_IN, 'df = pd.read_csv("sales.csv")\ndf.shape', cell=3, party="you"),
    record(
        tags.USER_REPL_OUT, "(10000, 5)\n\x1b[32mgreen\x1b[0m\n", cell=3, status="ok", duration=0.08
    ),
    record(tags.USER_CHAT, "which days are outliers, and why?", turn=1),
    record(tags.ASSISTANT_CHAT, ANSWER, turn=1, step=0, party="claude"),
    record(
        tags.ASSISTANT_REPL_IN,
        "outliers = daily[z.abs() > 3]",
        cell=4,
        turn=1,
        step=0,
        block=0,
        party="claude",
    ),
    record(
        tags.ASSISTANT_REPL_OUT, "day\n2026-03-14    48211.50\n", cell=4, status="ok", duration=0.21
    ),
    record(tags.NAMESPACE, cell=4, party="claude", changes=CHANGES),
    record(
        tags.NOTICE,
        "The conversation is back; the namespace is not: run again what you need.",
        level="info",
    ),
]


@pytest.mark.parametrize(
    ("theme", "size"),
    [("mahtab", (80, 24)), ("mahtab-day", (120, 46))],
    ids=["mahtab-80x24", "mahtab-day-120x46"],
)
def test_session_snapshot(
    snap_compare: Callable[..., bool], size: tuple[int, int], theme: str
) -> None:
    app = PaneApp(SESSION)
    app.theme = theme
    assert snap_compare(app, terminal_size=size)


def _gradient() -> str:
    """A picture whose pixels are known."""
    image, file = Image.new("RGB", (240, 120)), io.BytesIO()
    image.putdata([(x, 2 * y, 128) for y in range(120) for x in range(240)])
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_displays_snapshot(snap_compare: Callable[..., bool]) -> None:
    columns = "".join(f"<th>column {number}</th>" for number in range(12))
    lines = "".join(
        f"<tr><th>{line}</th>{''.join(f'<td>{line * number / 7:.4f}</td>' for number in range(12))}</tr>"
        for line in range(4)
    )
    frame = f"<table><tr><th></th>{columns}</tr>{lines}</table><p>4 rows × 12 columns</p>"
    displays = [
        ("text/html", frame),
        ("text/markdown", "## Found\n\n- *one*\n- `two`"),
        ("image/png", _gradient()),
    ]
    records = [record(tags.USER_REPL_IN, "display(df, words, figure)", cell=1, party="you")]
    records += [
        record(tags.DISPLAY, "text\n", cell=1, mime=mime, data=data) for mime, data in displays
    ]
    records.append(
        record(
            tags.USER_REPL_OUT,
            "text\n" * 3,
            cell=1,
            status="ok",
            duration=0.2,
            kinds=[["display", 5]] * 3,
        )
    )

    async def pictured(pilot: Pilot[None]) -> None:
        pane = pilot.app.query_one(TranscriptPane)
        await until(pilot, lambda: any("▀" in row for row in shown(pane)))

    assert snap_compare(PaneApp(records), terminal_size=(120, 46), run_before=pictured)


def test_tool_calls_snapshot(snap_compare: Callable[..., bool]) -> None:
    """Folded to three rows; the arguments as they run, nothing of them read as markup."""

    def call(
        number: int, state: str, text: str, name: str = "search_code", **arguments: Any
    ) -> list[Record]:
        about = {
            "call": f"1.0.{number}",
            "turn": 1,
            "step": 0,
            "party": "claude",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        return [
            record(tags.ASSISTANT_TOOL, "", **about, state="running"),
            record(tags.ASSISTANT_TOOL, text, **about, state=state),
        ]

    found = "app.py\n     3: def load_rows():\n     4-     return [red]x[/red]\n--\n    90: def load_all():"
    records = [
        record(tags.USER_CHAT, "where are rows loaded?", turn=1),
        record(tags.ASSISTANT_CHAT, "Let me look.", turn=1, step=0, party="claude", stopped=False),
        *call(0, "ok", found, pattern="def load_\\w+", file_pattern="*.py"),
        *call(1, "error", "File not found: xyz.cbl", "read_file", path="xyz.cbl"),
        *call(
            2,
            "refused",
            "Not called: one question may have 25 calls of tools.",
            "read_file",
            path="[b]app.py[/b]" * 12,
        ),
        record(tags.SKILL, "", name="tidy", loaded=True, chars=1_200, budget=60_000),
        record(
            tags.ASSISTANT_CHAT,
            "In `load_rows`, in `app.py`.",
            turn=1,
            step=1,
            party="claude",
            stopped=False,
        ),
    ]
    assert snap_compare(PaneApp(records), terminal_size=(80, 24))
