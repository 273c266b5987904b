"""Each test has its own home, nothing of the developer's settings, and only a fake `claude`."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import re
import shlex
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import execnet
import pytest
from hypothesis import Phase, settings

from tests import warm
from tests.costs import name_of, slow_tests
from tests.fake_claude import FakeClaude, InstallClaude, install_fake_claude
from tests.waiting import end_waiting_kernels

# A shell's background jobs, and nohup, ignore some signals; programs that tests start must not.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        interrupts = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)

# Write compiled modules, whatever the shell says: tests start the program hundreds of times.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Collect garbage rarely: otherwise it takes a sixth of the time of a test that draws.
gc.set_threshold(300_000, 10, 10)

# Examples have no deadline, because their time depends on the machine. The phase "explain" traces,
# which never ends in Python 3.11 once an exception was sent to a thread that waits for ever.
settings.register_profile(
    "any machine", deadline=None, phases=[phase for phase in Phase if phase is not Phase.explain]
)
settings.load_profile("any machine")

# Longer than any test's own limit, which can be lost in asyncio, C code or a teardown.
LONGEST_TEST = 400.0
TESTS = Path(__file__).parent
REAL_TIME = ("acp", "acp_client", "e2e", "integration", "mcp", "tui")
"""Folders of tests of processes, sockets and terminals, which wait for something to happen: on a
busy machine it may come too late. Such a test may fail once; the summary names it as `RERUN`."""
STDERR = pytest.StashKey[int]()
NUMBERS = itertools.count()


_REMOVED_VARIABLES = re.compile(
    r"(MAHTAB_|ANTHROPIC_|CLAUDE|CODEX_|OPENAI_|OTEL_|XDG_|PYTHONSTARTUP|KITTY_|TERM_PROGRAM).*"
    r"|NO_COLOR|FORCE_COLOR|CLICOLOR_FORCE|VISUAL|EDITOR|TMUX|COLUMNS|LINES|(WAYLAND_)?DISPLAY"
    r"|VIRTUAL_ENV|CONDA_PREFIX|UV_PROJECT_ENVIRONMENT"
)


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close figures of cells in this process, or the next test's first cell would show them."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Make an empty home folder, and remove the developer's settings from the environment."""
    # Numbered here, because pytest would list all folders of the run at each test.
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(NUMBERS))
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in list(os.environ):
        if _REMOVED_VARIABLES.fullmatch(name):
            monkeypatch.delenv(name)
    for name in ("LLAMACPP", "LMSTUDIO", "VLLM", "OLLAMA"):
        monkeypatch.setenv(f"{name}_HOST", "127.0.0.1:1")  # a port without a server
    yield folder
    end_waiting_kernels(folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def install_claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallClaude:
    """Put a fake `claude` on the PATH."""

    def install(behaviour: str, **options: Any) -> FakeClaude:
        fake = install_fake_claude(tmp_path / "bin", behaviour, **options)
        monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
        return fake

    return install


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are known to cost much, and those that may fail on a busy machine."""
    _mark_all_but_samples(items)
    slow = slow_tests()
    for item in items:
        if name_of(item) in slow or item.get_closest_marker("thorough"):
            item.add_marker("slow")
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in REAL_TIME:
            item.add_marker(pytest.mark.flaky(reruns=1))


def _mark_all_but_samples(items: list[pytest.Item]) -> None:
    """Mark as thorough what `sample(count)` leaves out: all parameters but `count`, evenly spread."""
    sampled = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sample"):
            sampled[name_of(item)].append(item)
    for same_test in sampled.values():
        marker = same_test[0].get_closest_marker("sample")
        assert marker is not None
        [count] = marker.args
        kept = {number * len(same_test) // count for number in range(count)}
        for number, item in enumerate(same_test):
            if number not in kept:
                item.add_marker("thorough")


def pytest_collection_finish() -> None:
    """Exclude the loaded objects from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten ids of long texts, which are sent to other processes and put into environments."""
    return ascii(val)[:60] if isinstance(val, str | bytes) and len(val) > 100 else None


def pytest_xdist_auto_num_workers() -> int:
    """Use three for each processor, because many tests wait for processes or screens."""
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[execnet.XSpec]) -> None:
    """Fork the workers from a process that has loaded program and tests already."""
    for spec in specs:
        spec.python = shlex.join(warm.worker_command(config.args))


def pytest_configure(config: pytest.Config) -> None:
    """Save the run's stderr, which is captured while a test runs."""
    config.stash[STDERR] = os.dup(2)
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        warm.prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that never ends, and print the stack of every thread."""
    _limit_time(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the teardown, too: after a failure pytest's own plug-in cancels the timer."""
    if isinstance(node, pytest.Item):
        _limit_time(node)


def _limit_time(item: pytest.Item) -> None:
    faulthandler.dump_traceback_later(LONGEST_TEST, exit=True, file=item.config.stash[STDERR])
