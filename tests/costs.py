"""The list of slow tests: read it, and measure it anew."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_LIST = Path(__file__).with_name("slow.txt")
_VARIABLE = "TEST_COSTS"
"""Environment variable with the file for the measurements of a run."""
MOST_WORK = 0.2
LONGEST = 1.5
"""Seconds of processor time, and of time: a test is slow if its mean over its parameters is more."""
CORE = ("test_running", "test_session")
"""Files of `e2e` that are never slow, so that the quick tests start the program."""


def slow_tests() -> frozenset[str]:
    """Return the names of slow tests, without parameters."""
    return frozenset(_LIST.read_text().splitlines())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test with its fixtures; `main` loads this module as a plug-in of pytest."""
    began = time.monotonic()
    worked = _work()
    result = yield
    with open(os.environ[_VARIABLE], "a") as file:
        file.write(f"{_work() - worked}\t{time.monotonic() - began}\t{name_of(item)}\n")
    return result


def name_of(item: pytest.Item) -> str:
    """Return the name of a test without its parameters."""
    return item.nodeid.partition("[")[0]


def _work() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def costly(measured: str) -> list[str]:
    """Return the names of slow tests. measured: the lines of a run."""
    works = defaultdict[str, list[float]](list)
    times = defaultdict[str, list[float]](list)
    for line in measured.splitlines():
        work, took, name = line.split("\t")
        works[name].append(float(work))
        times[name].append(float(took))

    def is_costly(name: str) -> bool:
        count = len(works[name])
        return sum(works[name]) > MOST_WORK * count or sum(times[name]) > LONGEST * count

    core = tuple(f"tests/e2e/{file}.py" for file in CORE)
    return sorted(name for name in works if is_costly(name) and not name.startswith(core))


def main() -> int:
    """Run all tests, and write the list if none fails."""
    with tempfile.NamedTemporaryFile("r") as file:
        command = [sys.executable, "-m", "pytest", "-p", "tests.costs", "-m", "slow or not slow"]
        code = subprocess.run(command, env=os.environ | {_VARIABLE: file.name}).returncode
        if code == 0:
            _LIST.write_text("".join(f"{name}\n" for name in costly(file.read())))
    return code


if __name__ == "__main__":
    sys.exit(main())
