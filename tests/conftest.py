"""Every test has a home of its own, no configuration of the person's, and no `claude` but a fake
one."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import shlex
import signal
import sys
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

# In a shell's background some signals are ignored, and would be by every program that a test
# starts; nohup adds SIGHUP.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )

# Compiled modules are kept, whatever the shell says: every worker loads all tests, and these start
# the program hundreds of times.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The garbage collector looks seldom: it would take a sixth of the time of a test that draws.
gc.set_threshold(50_000, 10, 10)

# How long an example takes says something of the machine only. Without the phase "explain", which
# traces: in Python 3.11, tracing never ends once an exception was sent to a thread that waits for
# ever, as tests of interrupts do.
settings.register_profile(
    "any machine", deadline=None, phases=[phase for phase in Phase if phase is not Phase.explain]
)
settings.load_profile("any machine")

# Longer than any test's own limit, which strikes once: it is lost where asyncio swallows it, in C
# code, and before a teardown that hangs.
LONGEST_TEST = 400.0
STDERR = pytest.StashKey[int]()
NUMBERS = itertools.count()


_PERSONAL = tuple(
    "MAHTAB_ ANTHROPIC_ CLAUDE OPENAI_ OTEL_ XDG_ PYTHONSTARTUP KITTY_ TERM_PROGRAM".split()
)
_OF_A_TERMINAL = (
    "NO_COLOR FORCE_COLOR CLICOLOR_FORCE VISUAL EDITOR TMUX COLUMNS LINES DISPLAY WAYLAND_DISPLAY"
).split()


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Cells that run in this process leave no open figures to the next test, whose first cell would
    show them."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty home folder; the environment says nothing of the person's own set-up."""
    # By a number of our own: pytest looks for the next one among all folders of the run, at each
    # test.
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(NUMBERS))
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in list(os.environ):
        if name in _OF_A_TERMINAL or name.startswith(_PERSONAL):
            monkeypatch.delenv(name)
    for name in ("LLAMACPP", "LMSTUDIO", "VLLM", "OLLAMA"):
        monkeypatch.setenv(f"{name}_HOST", "127.0.0.1:1")  # nobody answers there
    yield folder
    end_waiting_kernels(folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory."""
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
    """Mark the tests that are known to cost much."""
    slow = slow_tests()
    for item in items:
        if name_of(item) in slow:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Freeze the loaded objects: the garbage collector need not go through them again and again."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text is not its own name: a test's name goes from process to process, and into the
    environment of what it starts."""
    return ascii(val)[:60] if isinstance(val, str | bytes) and len(val) > 100 else None


def pytest_xdist_auto_num_workers() -> int:
    """Three for each processor: many tests wait for another process or for a screen to come to
    rest."""
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[execnet.XSpec]) -> None:
    """Fork the workers from a process that has loaded what each of them would load."""
    for spec in specs:
        spec.python = shlex.join(warm.command())


def pytest_configure(config: pytest.Config) -> None:
    """Keep the run's own stderr: while a test runs, its output is captured."""
    config.stash[STDERR] = os.dup(2)
    if not hasattr(config, "workerinput"):
        warm.prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that never ends, with the stack of every thread, so that the run
    goes on and names it."""
    _end_what_never_ends(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """After a failure comes the teardown; pytest's own plug-in has just called the timer off."""
    if isinstance(node, pytest.Item):
        _end_what_never_ends(node)


def _end_what_never_ends(item: pytest.Item) -> None:
    faulthandler.dump_traceback_later(LONGEST_TEST, exit=True, file=item.config.stash[STDERR])
