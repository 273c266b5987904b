"""The numbers of system calls are those of the kernel's own tables, also of processors on which the
tests do not run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

if sys.platform != "linux":
    pytest.skip("the tables are those of Linux", allow_module_level=True)

from mahtab_tui.worker.guard import refusals, reported_calls
from mahtab_tui.worker.sandbox import allowed_calls
from mahtab_tui.worker.witness import calls, client

_HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    # 64-bit ARM has this table, without changes.
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
_DEFINITION = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s")
_ARM_NAMES = {"newfstatat": "fstatat"}
"""Names in the table of 64-bit ARM, by those on x86-64."""


class _Row(NamedTuple):
    name: str
    x86_64: int | None
    aarch64: int | None


def _rows() -> Iterator[_Row]:
    for watched in calls._read_table():
        yield _Row(watched.name, watched.x86_64, watched.aarch64)
    for reported in reported_calls.REPORTED_CALLS:
        yield _Row(reported.name, reported.x86_64, reported.aarch64)
    for allowed in (*allowed_calls.ALLOWED, *allowed_calls.READING):
        yield _Row(allowed.name, allowed.x86_64, allowed.aarch64)
    for table in (client._SECCOMP_CALL, refusals._SECCOMP_CALL):
        yield _Row("seccomp", table["x86_64"], table["aarch64"])


@pytest.mark.parametrize("processor", _HEADERS)
def test_numbers_are_those_of_the_kernel(processor: str) -> None:
    header = _HEADERS[processor]
    if not header.exists():
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    numbers = {name: int(number) for name, number in _DEFINITION.findall(header.read_text())}
    for name, arm_name in _ARM_NAMES.items():
        numbers.setdefault(name, numbers.get(arm_name, -1))
    newest_number = max(numbers.values())

    for row in _rows():
        number = getattr(row, processor)
        # These headers may be older than the call.
        if row.name in numbers or (number is not None and number <= newest_number):
            assert number == numbers.get(row.name), row.name
