"""Reads the columns of a table in a limited time.

`read_columns` asks the `ColumnReader` of each column for one part of its rows after another, and at
the end for its `ColumnFacts`. `pandas_readers.py` and `typed_readers.py` have the readers for the
libraries. None of the user's code runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from .column_facts import ColumnFacts, text_facts, with_counts
from .number_texts import number_text

TABLE_TIMEOUT_S = 0.05
"""Processor time for the columns of a table together."""
_MAX_WAIT_FACTOR = 4
"""On a busy machine, reading may take this many times as long."""
FIRST_ROWS = 10_000
"""Rows that are read even if time is up, so that small tables are always read to the end."""
_NUMBERS_PER_PART = 200_000
_TEXTS_PER_PART = 20_000
_MAX_MEAN_TEXT_CHARS = 200
"""Texts that are longer on average are not counted: comparing them takes too long."""


class ColumnReader(ABC):
    """Reads the values of a column from the first row on, and keeps what will be said about them."""

    def __init__(self, rows: int, *, is_slow: bool = False) -> None:
        """
        Args:
            rows: The number of all rows.
            is_slow: Whether reading a value takes long, as for texts and objects.
        """
        self.rows = rows
        self.rows_per_part = _TEXTS_PER_PART if is_slow else _NUMBERS_PER_PART
        self.missing = 0
        """How many of the values that were read are missing."""
        self.note = ""
        """What the type of the column does not say."""
        self._low: Any = None
        self._high: Any = None
        self._trues: int | None = None
        """How many values are true; None if they are not truth values."""
        self._texts: Counter[str] | None = Counter()
        """How often each text occurs; None if they are too long to be counted."""

    @property
    def texts(self) -> Collection[str]:
        """The different texts that were read; empty if they are too long to be compared."""
        if self._texts is None:
            return ()
        return self._texts.keys()

    @abstractmethod
    def read(self, start: int, stop: int) -> None:
        """Read the next rows, up to `stop`."""

    def facts(self, rows: int) -> ColumnFacts:
        """Return what was read.

        Args:
            rows: How many rows were read.
        """
        facts = ColumnFacts(rows, rows == self.rows, self.missing, note=self.note)
        if self._low is not None:
            return facts._replace(low=self._write(self._low), high=self._write(self._high))
        if self._trues is not None:
            counts = Counter({True: self._trues, False: facts.present - self._trues})
            return with_counts(facts, +counts)  # without the value that does not occur
        if self._texts:
            return text_facts(facts, self._texts)
        return facts

    def _extend(self, low: object, high: object) -> None:
        """Extend the range of the values; low: None or NaN if no value has an order."""
        if low is None or low != low:
            return
        if self._low is None or low < self._low:
            self._low = low
        if self._high is None or high > self._high:
            self._high = high

    def _count(self, texts: Mapping[str, int] | Sequence[str], mean_length: float) -> None:
        """Count texts, or add the counts of texts."""
        if self._texts is None or mean_length > _MAX_MEAN_TEXT_CHARS:
            self._texts = None
        else:
            self._texts.update(texts)

    def _write(self, value: object) -> str:
        """Write the smallest or the largest value."""
        return number_text(value)


def read_columns(readers: Sequence[ColumnReader | None]) -> list[ColumnFacts | None]:
    """Read columns in a limited time, which they share; None for those without a reader, and those
    that cannot be read."""
    facts: list[ColumnFacts | None] = [None] * len(readers)
    columns = [(index, reader) for index, reader in enumerate(readers) if reader is not None]
    # Columns that are read fast come first, and leave the rest of their time to the slow ones.
    columns.sort(key=lambda column: column[1].rows_per_part, reverse=True)
    wall_deadline = time.monotonic() + _MAX_WAIT_FACTOR * TABLE_TIMEOUT_S
    cpu_deadline = time.thread_time() + TABLE_TIMEOUT_S
    for number, (index, reader) in enumerate(columns):
        now = time.thread_time()
        cpu_share = max(0.0, cpu_deadline - now) / (len(columns) - number)
        with suppress(Exception):  # a library's object in an unforeseen state
            facts[index] = _read_column(reader, now + cpu_share, wall_deadline)
    return facts


def _read_column(reader: ColumnReader, cpu_deadline: float, wall_deadline: float) -> ColumnFacts:
    """Read a column until it ends or time is up: in times of `time.thread_time` and
    `time.monotonic`."""
    row = 0
    while row < reader.rows:
        is_late = time.thread_time() >= cpu_deadline or time.monotonic() >= wall_deadline
        if row and is_late:
            break
        part_rows = reader.rows_per_part if row else FIRST_ROWS
        stop = min(reader.rows, row + part_rows)
        reader.read(row, stop)
        row = stop
    return reader.facts(row)
