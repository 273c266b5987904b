"""Figures of saved sessions: how long it takes to find one among many, and the index's cost."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record, encode
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.store.database import transaction
from mahtab_tui.store.session_file import connect
from mahtab_tui.store.session_index import find_sessions
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_words import catch_up
from mahtab_tui.store.sqlite import SqliteStore
from tests.benchmarks.table import Row, timed

_SESSIONS = 10_000
_TURNS = 20
"""Questions of a session; each makes ten records."""
_COMMON = "the of and to in is we for that this data column value row table mean group print frame index sum count month order price".split()


class _Texts:
    def __init__(self) -> None:
        self._chance = random.Random(0)
        self._words = _COMMON + [
            "".join(self._chance.choices("etaoinshrdlcumwfgypbvk", k=self._chance.randint(3, 11)))
            for _ in range(40_000 - len(_COMMON))
        ]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def words(self, count: int) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=count))

    def code(self) -> str:
        form = "{0} = frame.groupby('{1}')['{2}'].mean()\nprint({0}.sort_values('{3}').head())\n{4} = {0} * {5!r}"
        return form.format(*self.words(6).split())

    def table(self) -> str:
        return "\n".join(
            f"{row:>3}  {self.words(2):<24}  {self._chance.random() * 1000:.3f}" for row in range(8)
        )

    def session(self) -> Iterator[Record]:
        for turn in range(1, _TURNS + 1):
            cell = 2 * turn
            turn_fields: dict[str, Any] = {"turn": turn, "time": 1e9}
            mine: dict[str, Any] = {"cell": cell, "party": "you", "time": 1e9}
            block: dict[str, Any] = {**turn_fields, "cell": cell + 1, "step": 0, "block": 0}
            change = Change("frame", "rebound", Variable("frame", "DataFrame", "8 rows", "data"))
            yield records.UserReplIn(self.code(), **mine)
            yield records.UserReplOut(self.table(), status="ok", duration=0.1, **mine)
            yield records.Namespace(cell=cell, changes=(change,), time=1e9)
            yield records.UserChat(self.words(15), **turn_fields)
            yield records.Agent(state="thinking", **turn_fields)
            yield records.AssistantChat(self.words(60), step=0, party="model", **turn_fields)
            yield records.AssistantReplIn(self.code(), party="model", **block)
            yield records.AssistantReplOut(self.table(), status="ok", duration=0.1, **block)
            yield records.Usage(
                model="model", input_tokens=1000, output_tokens=100, cost=0.01, **turn_fields
            )
            yield records.Agent(state="done", **turn_fields)


def _write(path: Path, texts: _Texts) -> None:
    with closing(connect(path)) as connection:
        for number in range(_SESSIONS):
            with transaction(connection):
                name = f"{number:08x}"
                row = (name, f"/data/{number % 100}", 1e9, 1e9 + number, "first")
                connection.execute("insert into session values (?, 'study', ?, ?, ?, ?)", row)
                rows = [
                    (name, record.time, record.tag, json.dumps(encode(record)), record.text)
                    for record in texts.session()
                ]
                if number % 100 == 7:
                    rows[3] = (*rows[3][:4], f"zanzibar{number} {rows[3][4]}")
                insert = "insert into record (session, time, tag, attrs, text) values "
                connection.executemany(f"{insert}(?, ?, ?, ?, ?)", rows)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        texts = _Texts()
        _write(path, texts)
        records_mb = path.stat().st_size / 1e6
        (indexed,) = timed(catch_up, 1, path, 3600.0)
        index = path.with_name("sessions-words.db")
        with closing(sqlite3.connect(index)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
        label = f"index of {_SESSIONS:,} sessions of 200 records: time"
        note = f"{1e3 * indexed / _SESSIONS / 200:.0f} us a record"
        yield Row(label, indexed / 1000, note=note, unit="s")
        size = index.stat().st_size / 1e6
        yield Row("its size", size, "< the records", records_mb, "the records", "MB")
        for label, *typed in (
            ("a rare word", "zanzibar7007"),
            ("the beginning of rare words", "zanz"),
            ("a common word", "frame"),
            ("the beginning of a common word", "groupb"),
            ("two letters", "pr"),
            ("five common words", "frame groupby print mean sort"),
            ("a common and a rare word", "the zanzibar7007"),
            ("nothing", "zanzibar7007 zanzibar107"),
            ("a common word in one folder of 100", "frame groupb", "/data/7"),
        ):
            yield Row(f"finding {label}", timed(find_sessions, 20, path, *typed), "<= 100")
        took = timed(lambda: list_sessions(path, limit=50), 20)
        yield Row("listing the newest 50", took, "<= 100")
        store = SqliteStore(path, "appended", name="study", project="/p")
        added = (record for _ in range(5) for record in texts.session())
        append_times = [timed(store.append, 1, record)[0] for record in added]
        store.close()
        note = f"mean {fmean(append_times):.2f}, longest {max(append_times):.0f}"
        yield Row("appending a record", append_times, note=note)
