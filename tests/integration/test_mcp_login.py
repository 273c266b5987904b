"""MCP servers that require a login, with a real OAuth server."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.servers.state import SavedLogins
from tests import tags
from tests.integration.sessions import Opened
from tests.integration.test_mcp_hostile import port
from tests.integration.test_mcp_servers import start
from tests.servers import configure, listening
from tests.waiting import wait_for

__all__ = ["port"]
pytestmark = pytest.mark.usefixtures("project")

BROKEN = ["", "[]", "{", '{"http://a": 5}', '{"http://a": {"tokens": {"access_token": 7}}}']


@contextlib.contextmanager
def opened(home: Path, port: int, *, no_trace: bool = False) -> Iterator[Opened]:
    configure(home, far={"url": f"http://127.0.0.1:{port}/mcp"})
    it = start(ProcessKernel(), no_trace=no_trace)
    try:
        yield it
    finally:
        it.session.close()


def asked(it: Opened) -> str:
    """Run a cell that needs a login, and return the address to visit."""
    it.session.submit("python", "far.add(40)")
    urls: list[str] = []

    def search() -> bool:
        texts = "\n".join(record.text for record in it.store.records)
        urls[:] = re.findall(r"open (http://127\.0\.0\.1:\d+/) in a browser", texts)
        return bool(urls)

    wait_for(search)
    return urls[0]


def was_asked(it: Opened) -> bool:
    return any("log in" in record.text for record in it.store.records)


def visit(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as page:
        return str(page.read().decode())


def log_in(it: Opened, url: str) -> None:
    assert visit(url) == "You are logged in. You can close this page and go back to mahtab-tui."
    it.store.wait(tags.USER_REPL_OUT, cell=1, status="ok")


@pytest.mark.thorough
def test_user_logs_in_once_and_later_sessions_reuse_it(home: Path, port: int) -> None:
    file = home / ".mahtab" / "mcp_logins.json"
    with listening("locked", port):
        with opened(home, port) as it:
            log_in(it, asked(it))
            assert it.value("far.add(40)") == "42"
            assert file.stat().st_mode & 0o777 == 0o600
            login = json.loads(file.read_text())[f"http://127.0.0.1:{port}/mcp"]
            token = login["tokens"]["access_token"]
            assert token not in it.run(f"print(open({str(file)!r}).read())").text
        with opened(home, port) as it:
            assert it.value("far.add(1)") == "3"
            assert not was_asked(it)


def test_expired_token_is_renewed_without_the_user(home: Path, port: int) -> None:
    file = home / ".mahtab" / "mcp_logins.json"
    with listening("locked", port):
        with opened(home, port) as it:
            log_in(it, asked(it))
        logins = json.loads(file.read_text())
        (login,) = logins.values()
        old_token = login["tokens"]["access_token"]
        login["expires"] = 1.0
        file.write_text(json.dumps(logins))
        with opened(home, port) as it:
            assert it.value("far.add(1)") == "3"
            assert not was_asked(it)
        (login,) = json.loads(file.read_text()).values()
        assert login["tokens"]["access_token"] != old_token


def test_no_trace_session_stores_no_login(home: Path, port: int) -> None:
    with listening("locked", port), opened(home, port, no_trace=True) as it:
        log_in(it, asked(it))
        assert it.value("far.add(40)") == "42"
        assert not (home / ".mahtab" / "mcp_logins.json").exists()


def test_refused_login_gives_one_sentence(home: Path, port: int) -> None:
    with listening("locked", port, "refuse"), opened(home, port) as it:
        assert visit(asked(it)) == "The login failed. You can close this page."
        text = it.store.wait(tags.USER_REPL_OUT, cell=1, status="error").text
        assert "The server far could not be started: the login failed: not " in text


def test_other_pages_can_neither_log_in_nor_stop_the_wait(home: Path, port: int) -> None:
    with listening("locked", port), opened(home, port) as it:
        url = asked(it)
        for path in ("?code=stolen&state=guessed", "?error=access_denied", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                visit(f"{url}callback{path}")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            visit(f"{url}favicon.ico")
        log_in(it, url)


def test_interrupt_stops_the_cells_wait_but_not_the_login(home: Path, port: int) -> None:
    with listening("locked", port), opened(home, port) as it:
        url = asked(it)
        it.session.kernel.interrupt()
        it.store.wait(tags.USER_REPL_OUT, cell=1, status="interrupted")
        assert visit(url).startswith("You are logged in.")
        assert it.value("far.add(40)") == "42"


@pytest.mark.parametrize("content", BROKEN)
def test_broken_file_counts_as_missing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "logins.json"
    file.write_text(content)
    logins = SavedLogins(file, lambda secret: None)
    assert logins.get("http://b") == {}
    logins.update("http://a", port=1)
    assert SavedLogins(file, lambda secret: None).get("http://a")["port"] == 1
