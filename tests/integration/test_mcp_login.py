"""Servers that want a login: a real OAuth server, and a browser that is Python's."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.servers.servers import SavedLogins
from tests import tags
from tests.integration.sessions import Opened
from tests.integration.test_mcp_hostile import listens, port
from tests.integration.test_mcp_servers import start
from tests.servers import configure
from tests.waiting import wait_for

__all__ = ["port"]
ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def locked(port: int, *, seconds: int = 3600, refuse: bool = False) -> Iterator[None]:
    command = [
        sys.executable,
        str(ROOT / "tests" / "servers" / "locked.py"),
        str(port),
        str(seconds),
        *["refuse"] * refuse,
    ]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
    ) as program:
        try:
            wait_for(lambda: listens(port), 60)
            yield
        finally:
            program.kill()


@contextlib.contextmanager
def opened(home: Path, port: int, *, no_trace: bool = False) -> Iterator[Opened]:
    configure(home, far={"url": f"http://127.0.0.1:{port}/mcp"})
    it = start(ProcessKernel(), no_trace=no_trace)
    try:
        yield it
    finally:
        it.session.close()


def asked(it: Opened) -> str:
    def found() -> re.Match[str] | None:
        return next(
            (
                seen
                for record in it.store.records
                if (seen := re.search(r"open (http://127\.0\.0\.1:\d+/) in a browser", record.text))
            ),
            None,
        )

    wait_for(lambda: found() is not None, 60)
    match = found()
    assert match is not None
    return match[1]


def visit(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as page:
        return str(page.read().decode())


def logged_in(it: Opened, cell: int) -> None:
    assert (
        visit(asked(it)) == "You are logged in. You can close this page and go back to mahtab-tui."
    )
    it.store.wait(tags.USER_REPL_OUT, cell=cell, status="ok")


def test_user_logs_in_once_and_later_sessions_reuse_it(
    home: Path, project: Path, port: int
) -> None:
    file = home / ".mahtab" / "mcp_logins.json"
    with locked(port):
        with opened(home, port) as it:
            it.session.submit("python", "far.add(40)")
            logged_in(it, 1)
            assert it.value("far.add(40)") == "42"
            assert file.stat().st_mode & 0o777 == 0o600
            token = json.loads(file.read_text())[f"http://127.0.0.1:{port}/mcp"]["tokens"][
                "access_token"
            ]
            assert token not in it.run(f"print(open({str(file)!r}).read())").text
        with opened(home, port) as it:
            assert it.value("far.add(1)") == "3"
            assert not any("log in" in record.text for record in it.store.records)


def test_expired_token_is_renewed_without_the_user(home: Path, project: Path, port: int) -> None:
    file = home / ".mahtab" / "mcp_logins.json"
    with locked(port):
        with opened(home, port) as it:
            it.session.submit("python", "far.add(40)")
            logged_in(it, 1)
        stored = json.loads(file.read_text())
        (login,) = stored.values()
        before, login["expires"] = login["tokens"]["access_token"], 1.0
        file.write_text(json.dumps(stored))
        with opened(home, port) as it:
            assert it.value("far.add(1)") == "3"
            assert not any("log in" in record.text for record in it.store.records)
        (login,) = json.loads(file.read_text()).values()
        assert login["tokens"]["access_token"] != before


def test_no_trace_session_stores_no_login(home: Path, project: Path, port: int) -> None:
    with locked(port), opened(home, port, no_trace=True) as it:
        it.session.submit("python", "far.add(40)")
        logged_in(it, 1)
        assert it.value("far.add(40)") == "42"
        assert not (home / ".mahtab" / "mcp_logins.json").exists()


def test_refused_login_gives_one_sentence(home: Path, project: Path, port: int) -> None:
    with locked(port, refuse=True), opened(home, port) as it:
        it.session.submit("python", "far.add(40)")
        assert visit(asked(it)) == "The login failed. You can close this page."
        text = it.store.wait(tags.USER_REPL_OUT, cell=1, status="error").text
        assert "The server far could not be started: the login failed: not " in text


def test_other_pages_can_neither_log_in_nor_stop_the_wait(
    home: Path, project: Path, port: int
) -> None:
    with locked(port), opened(home, port) as it:
        it.session.submit("python", "far.add(40)")
        url = asked(it)
        for path in (
            "callback?code=stolen&state=guessed",
            "callback?error=access_denied",
            "callback",
            "favicon.ico",
        ):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                visit(url + path)
        logged_in(it, 1)


def test_interrupt_stops_the_cells_wait_but_not_the_login(
    home: Path, project: Path, port: int
) -> None:
    with locked(port), opened(home, port) as it:
        it.session.submit("python", "far.add(40)")
        url = asked(it)
        it.session.kernel.interrupt()
        it.store.wait(tags.USER_REPL_OUT, cell=1, status="interrupted")
        assert visit(url).startswith("You are logged in.")
        assert it.value("far.add(40)") == "42"


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"http://a": 5}', '{"http://a": {"tokens": {"access_token": 7}}}']
)
def test_broken_file_counts_as_missing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "logins.json"
    file.write_text(content)
    logins = SavedLogins(file, lambda secret: None)
    assert logins.get("http://b") == {}
    logins.keep("http://a", port=1)
    assert SavedLogins(file, lambda secret: None).get("http://a")["port"] == 1
