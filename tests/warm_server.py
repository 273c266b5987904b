"""Forks the program, and pytest's workers, for `tests.warm`."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import acp  # noqa: F401
import jupytext  # noqa: F401
import langgraph.graph  # noqa: F401
import markdown_it  # noqa: F401
import mcp.client.stdio
import mcp.server.stdio  # noqa: F401
import nbformat  # noqa: F401
import pygments.lexers.python  # noqa: F401
import pytest
import tree_sitter_python  # noqa: F401
import yaml  # noqa: F401

import mahtab_tui.agent.graph
import mahtab_tui.agent.repl_agent
import mahtab_tui.cli.ask
import mahtab_tui.cli.main
import mahtab_tui.cli.rlm
import mahtab_tui.llm.scripted
import mahtab_tui.mcp.handlers
import mahtab_tui.mcp.server
import mahtab_tui.search.engine
import mahtab_tui.session.components
import mahtab_tui.session.notebooks
import mahtab_tui.session.sharing
import mahtab_tui.store.resume
import mahtab_tui.tools.toolset
import mahtab_tui.tui.open
import mahtab_tui.tui.transcript.layout
import mahtab_tui.tui.widgets.approval_row  # noqa: F401
from mahtab_tui.__main__ import main
from tests import warm
from tests.servers import outside_agent


def serve(address: str) -> socket.socket:
    """Return in a new process for each program, with the connection that requested it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leaves no zombies
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            if 0 in select.select([0, listener.fileno()], [], [])[0]:
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return connection
            connection.close()


def become(connection: socket.socket) -> None:
    """Return in the program's process; this process reports its id and exit code."""
    _, files, *_ = socket.recv_fds(connection, len(b"program"), 3)
    with connection, connection.makefile("rwb") as file:
        arguments, environment, folder, way = marshal.load(file)
        program = os.fork()
        if program:
            for descriptor in {0, 1, *files}:
                os.close(descriptor)
            with contextlib.suppress(BrokenPipeError):  # the test may have ended before its program
                marshal.dump(program, file)
                file.flush()
                if way == warm.BOUND:
                    threading.Thread(
                        target=kill_with_client, args=(program, connection), daemon=True
                    ).start()
                marshal.dump(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), file)
                file.flush()
            os._exit(0)
    for standard, descriptor in enumerate(files):
        os.dup2(descriptor, standard)
    for descriptor in set(files):
        os.close(descriptor)
    if way == warm.TERMINAL:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["mahtab-tui", *arguments]
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    for number, (name, mode, on_error) in enumerate(
        [("stdin", "r", errors), ("stdout", "w", errors), ("stderr", "w", "backslashreplace")]
    ):
        buffering = 1 if name == "stderr" or os.isatty(number) else -1
        stream = os.fdopen(
            number, mode, buffering, encoding=encoding, errors=on_error or None, closefd=False
        )
        vars(sys).update({name: stream, f"__{name}__": stream})


def kill_with_client(program: int, connection: socket.socket) -> None:
    """Wait until the process has ended that has requested a program, and kill the program.

    The process of this thread ends with the program.
    """
    connection.recv(1)
    os.kill(program, signal.SIGKILL)


def load_tests(tests: Sequence[str]) -> None:
    """Collect tests, after which their modules are loaded, with asserts that explain themselves."""
    # Without pytest-xdist, for whose workers pytest-rerunfailures would start a thread.
    options = ["-o", "addopts=-p no:langsmith_plugin -p no:xdist", "--collect-only"]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main([*options, *tests])


def run_and_end(program: Callable[[], object]) -> NoReturn:
    """Run a program, and end as Python does, but without freeing its modules one by one: that takes
    longer than most programs of the tests."""
    exit_code: object = None
    try:
        program()
    except SystemExit as exit:
        exit_code = exit.code
    if isinstance(exit_code, str):
        print(exit_code, file=sys.stderr)
    status = exit_code if isinstance(exit_code, int) else int(exit_code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    if tests := sys.argv[2:]:
        load_tests(tests)
    assert threading.active_count() == 1
    gc.freeze()
    become(serve(sys.argv[1]))
    if sys.argv[1:2] == ["-u"]:  # execnet starts a Python so, and sends its program over stdin
        exec(eval(sys.stdin.readline()))
        sys.exit()
    if sys.argv[1:2] == [warm.AGENT]:
        del sys.argv[1]
        run_and_end(outside_agent.main)
    run_and_end(main)
