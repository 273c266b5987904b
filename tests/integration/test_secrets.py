"""Keys of the configuration reach their provider, and nothing else."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import get_record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.fake_claude import install_fake_claude
from tests.integration.sessions import Opened, Watched
from tests.services import OPENAI, Service, refusing, serving
from tests.trust import trust_project
from tests.waiting import wait_for

IN_ENV, IN_FILE, OF_THE_PERSON = "sk-in-env-file-1", "sk-in-config-file-2", "sk-of-the-shell-3"


@pytest.fixture
def service(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service at a `base_url`, its key in `.env`, another key in a configuration file, a third in
    the person's shell."""
    with serving() as service:
        (project / ".env").write_text(
            f"OPENAI_COMPATIBLE_API_KEY={IN_ENV}\nMAHTAB_BASE_URL={service.url}/v1\n"
        )
        trust_project()
        (home / ".mahtab" / "config.toml").write_text(f'[api_keys]\nanthropic = "{IN_FILE}"\n')
        monkeypatch.setenv("OPENAI_API_KEY", OF_THE_PERSON)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield service


@pytest.fixture
def it(service: Service) -> Iterator[Opened]:
    store = Watched()
    session = Session(
        load_settings(model="openai:our-own", reflection="never"),
        ProcessKernel(),
        HeadlessFrontend(),
        store=store,
        name="test",
    )
    session.start()
    yield Opened(session, store)
    session.close()


def stored(it: Opened) -> str:
    """All that the store was given."""
    return "".join(f"{record.text}{json.dumps(record.attrs)}" for record in it.store.records)


def test_key_in_env_file_reaches_its_provider(it: Opened, service: Service) -> None:
    service.replies = [OPENAI.reply("Hello")]
    assert it.session.agent.ask("hi") == "Hello"
    assert service.headers[0]["authorization"] == f"Bearer {IN_ENV}"
    assert IN_ENV not in stored(it)


def test_kernel_has_the_users_variables_but_no_configured_key(it: Opened) -> None:
    # Counted in the kernel: what it prints is masked.
    count = "import os, subprocess\nseen = str(os.environ) + subprocess.run(['env'], capture_output=True, text=True).stdout\n"
    it.session.submit("python", f"{count}seen.count('sk-in-'), seen.count('{OF_THE_PERSON}')")
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).text == "(0, 2)\n"
    assert not any("sk-in-" in value for value in os.environ.values())


def test_claude_program_does_not_receive_a_configured_key(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install_fake_claude(tmp_path / "bin", "answers", answers=["Hi."])
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    session = Session(
        load_settings(model="claude"),
        ProcessKernel(),
        HeadlessFrontend(),
        store=(store := Watched()),
    )
    session.start()
    try:
        session.agent.ask("hi")
    finally:
        session.close()
    (started,) = fake.starts
    assert started["keys"] == []
    assert "sk-in-" not in json.dumps(fake.received) + stored(Opened(session, store))


def test_error_quoting_the_key_is_masked(it: Opened, service: Service) -> None:
    service.replies = [refusing(401, f"Incorrect API key provided: {IN_ENV}.")]
    it.session.submit("ask", "hi")
    message = it.store.wait(tags.NOTICE, level="error").text
    assert "Incorrect API key provided: ••••••••" in message
    assert IN_ENV not in stored(it)


def test_cell_output_is_stored_and_sent_without_keys(it: Opened, service: Service) -> None:
    it.session.submit("python", "text = open('.env').read()\nprint(text)")
    shown = it.store.wait(tags.USER_REPL_OUT, cell=1).text
    assert "OPENAI_COMPATIBLE_API_KEY=••••••••" in shown
    service.replies = [OPENAI.reply("Hello")]
    it.session.agent.ask("what did it print?")
    assert "••••••••" in json.dumps(service.asked, ensure_ascii=False)
    assert IN_ENV not in json.dumps(service.asked) + stored(it)


def test_search_without_a_session_hides_the_key_too(service: Service) -> None:
    service.replies = [refusing(401, f"Incorrect API key provided: {IN_ENV}.")]
    llm = get_llm("openai:our-own", **load_settings().model_access())
    with pytest.raises(ModelError, match=r"Incorrect API key provided: ••••••••\."):
        llm.invoke("hi")
    assert IN_ENV not in repr(llm)


def test_streamed_cell_output_is_shown_without_keys(it: Opened, project: Path) -> None:
    shown: list[str] = []

    class Screen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (value := get_record(record)).tag == tags.USER_REPL_OUT_STREAM:
                shown.append(value.text)

    it.session.log.addHandler(Screen())
    read = "key = open('.env').readline().partition('=')[2].strip()"
    wait = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)"
    it.session.submit(
        "python",
        f"{read}\nprint('it is', key[:9], end='', flush=True)\n{wait}\nprint(key[9:], 'indeed')",
    )
    wait_for(lambda: shown)
    (project / "go").touch()
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).text == f"it is {MASK} indeed\n"
    assert "".join(shown) == f"it is {MASK} indeed\n"
