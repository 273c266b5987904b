"""A key is masked everywhere except in what its provider gets."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import get_record
from mahtab_tui.cli.ask import AnswerForm, ask_questions
from mahtab_tui.cli.ask_output import OutputForm
from mahtab_tui.cli.ask_session import SessionChoice
from mahtab_tui.cli.headless import FAILED_CODE
from mahtab_tui.cli.rlm import search_once
from mahtab_tui.kernel.inspector_client import TableArrangement
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.input_history import History
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.sqlite import SqliteStore
from tests import tags
from tests.fake_claude import InstallClaude
from tests.integration.sessions import Opened
from tests.records import RecordList
from tests.recursion_scripts import ScriptedModel, replies
from tests.secrecy import KEY, PRINT_KEY, assert_masked
from tests.services import OPENAI, Reply, Service, refusing, serving
from tests.trust import trust_project
from tests.waiting import wait_for

IN_ENV = "sk-in-env-file-1"
IN_FILE = "sk-in-config-file-2"
IN_SHELL = "sk-of-the-shell-3"


class Everything(RecordList):
    def streamed(self, **attrs: Any) -> str:
        return "".join(
            record.text
            for record in self.records
            if record.tag.endswith("-stream") and attrs.items() <= record.attrs.items()
        )

    def all_text(self) -> str:
        return "".join(
            f"{record.text}\n{json.dumps(record.attrs, ensure_ascii=False)}\n"
            for record in self.records
        )


@pytest.fixture
def service(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving() as service:
        (project / ".env").write_text(f"MAHTAB_BASE_URL={service.url}/v1\n")
        trust_project()
        (project / "key.txt").write_text(KEY)
        (home / ".mahtab" / "config.toml").write_text(
            f"[api_keys]\nopenai-compatible = {json.dumps(KEY)}\n"
        )
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield service


class SecretDoors(Opened):
    everything: Everything


@pytest.fixture
def it(service: Service) -> Iterator[SecretDoors]:
    doors = SecretDoors.make(
        load_settings(model="openai:our-own", reflection="never", approval="auto")
    )
    doors.everything = Everything()
    doors.session.log.addHandler(doors.everything)
    doors.session.start()
    yield doors
    doors.session.close()


def answer_input(it: SecretDoors, text: str, *, hidden: bool = True) -> None:
    waiting = it.store.wait(tags.INPUT, state="waiting")
    assert waiting.password is hidden
    it.session.host.inputs.answer(waiting.request, text)


def type_hidden(it: SecretDoors, name: str, text: str) -> None:
    cell = it.session.cells.last + 1
    it.session.submit("python", f"import getpass\n{name} = getpass.getpass('Key: ')")
    answer_input(it, text)
    it.store.wait(tags.USER_REPL_OUT, cell=cell)


# The bus: the screen, the store, watchers


def test_output_displays_and_errors_of_a_cell_hide_the_key(it: SecretDoors) -> None:
    output = it.run(f"{PRINT_KEY}\nkey")
    assert output.text.count(MASK) > 10
    assert_masked(output.text)
    assert_masked(it.everything.streamed(cell=1))
    assert sum(size for _, size in output.kinds) == len(output.text)
    assert output.kinds[-1] == ("value", len(f"'{MASK}'\n"))
    assert_masked(it.run("raise ValueError(key)").text)
    it.run("class H:\n    def _repr_markdown_(self): return f'**{key}**'\nH()")
    assert_masked(json.dumps([record.attrs for record in it.store.of(tags.DISPLAY)]))
    it.run("import threading\nthreading.Thread(target=lambda: print(key, 'late')).start()")
    wait_for(lambda: "late" in it.everything.all_text())
    it.run("globals()[key] = 5\nd = {key: key}\nimport subprocess\nsubprocess.run(['echo', key])")
    assert_masked(it.everything.all_text())


def test_code_and_questions_containing_the_key_hide_it(it: SecretDoors, service: Service) -> None:
    it.run(f"x = {KEY!r}")
    service.replies = [OPENAI.reply("So.")]
    it.session.submit("ask", f"is {KEY} right, or {KEY[:9]}\0{KEY[9:]}?")
    it.store.wait(tags.ASSISTANT_CHAT)
    assert_masked(it.everything.all_text())
    assert_masked(json.dumps(service.asked))


# The model


def test_nothing_sent_to_a_model_contains_the_key(it: SecretDoors, service: Service) -> None:
    it.run(f"{PRINT_KEY}\npair = (key, 1)")
    code = "```python\nsay(key); key\n```"
    service.replies = [OPENAI.reply(text) for text in (code, "Done.", "Again.", "Again.")]
    it.ask_and_wait(f"look at @key.txt and @key and @pair, {KEY}")
    assert len(service.asked) >= 2
    assert_masked(json.dumps(service.asked))
    assert_masked(json.dumps(service.asked, ensure_ascii=False))
    assert "@key.txt" in json.dumps(service.asked)


def test_no_model_of_a_search_receives_the_key(it: SecretDoors, service: Service) -> None:
    it.run("key = open('key.txt').read()")
    service.replies = [
        OPENAI.reply("```python\nprint(context, peek(50))\nFINAL(context[:60])\n```")
    ]
    output = it.run("rlm(f'what is {key}?', f'the key is {key}, and that is all ' * 3000)")
    assert "the key is" in output.text
    assert_masked(output.text)
    assert_masked(json.dumps(service.asked))
    assert_masked(it.everything.all_text())
    tree = it.store.of(tags.RLM_CALL)[0].tree
    text = it.session.searches.text(tree, 15, 60) or ""
    assert len(text) == 45, "offsets count the characters of the original text"
    assert_masked(text, expect_mask=False)
    assert "•" in text


# Files


def test_input_history_hides_the_key(it: SecretDoors, service: Service, home: Path) -> None:
    history = History(home / ".mahtab" / "history.db", "here", it.session.secrets.mask)
    history.add(f"x = {KEY!r}", "python")
    history.close()
    with sqlite3.connect(home / ".mahtab" / "history.db") as connection:
        assert_masked(str(connection.execute("select text from input").fetchall()))


def test_session_database_does_not_contain_the_key(service: Service, home: Path) -> None:
    path = home / ".mahtab" / "sessions.db"
    store = SqliteStore(path, "test")
    session = Session(
        load_settings(model="demo"), ProcessKernel(), HeadlessFrontend(), store=store, name="test"
    )
    session.start()
    session.ready.result(60)
    session.cells.run(f"{PRINT_KEY}\nkey")
    session.close()
    database = b"".join(file.read_bytes() for file in path.parent.glob("sessions.db*"))
    assert MASK.encode() in database
    assert_masked(database.decode("latin-1"), expect_mask=False)


# Agents


def test_agent_of_another_program_does_not_receive_the_key(it: SecretDoors) -> None:
    frames: list[Any] = []
    serve = it.join_agent(frames.append)
    it.run(f"mine = {KEY!r}")
    for answer in (
        serve("contents", seen=True),
        serve("evaluate", code=f"{PRINT_KEY}\n{KEY!r}\nkey"),
        frames,
        serve("inspect", name="key"),
        serve("inspect", name="mine"),
    ):
        assert_masked(json.dumps(answer, ensure_ascii=False))


# The inspector and the editor


def test_no_inspector_page_shows_the_key(it: SecretDoors) -> None:
    it.run(
        "key = open('key.txt').read()\nlong = 'x' * 90 + key + 'y' * 90\ndata = long.encode()\nhome = {'a': key, key: 1}\n"
        "class It:\n    '''Its doc.'''\n    def __init__(self): self.k = key\n    def __repr__(self): return f'It({key})'\n    @property\n"
        "    def p(self): return key\nit = It()\nrows = [{'k': key, 'n': 1}, {'k': 'b', 'n': 2}]"
    )
    look = it.session.open_inspector()

    def path(name: str) -> Any:
        return look.open((["name", name],)).path

    for page in (
        look.open((["name", "key"],)),
        look.children(path("home"), 0, 9),
        look.children(path("it"), 0, 9),
        look.evaluate(path("it"), "p"),
        look.representation(path("it")),
        look.representation(path("data")),
        look.rows(path("rows"), 0, 2, [0, 1], TableArrangement()),
    ):
        assert_masked(str(page))
    for size in (1, 13, 30, 1000):
        pages = "".join(
            look.text(path("long"), start, start + size).text
            for start in range(0, 90 + len(KEY) + 90, size)
        )
        assert pages == "x" * 90 + "•" * len(KEY) + "y" * 90
    assert look.text(path("long"), 100, 120).size == 180 + len(KEY)
    assert [heading.name for heading in look.headings(path("rows"), [0, 1])] == ["k", "n"]
    look.close()


def test_completion_and_help_hide_the_key(it: SecretDoors) -> None:
    it.run(
        "key = open('key.txt').read()\nd = {key: 1, 'other': key}\ndef f(x=key):\n    'The doc.'\n"
    )
    for code in ("ke", "d['", "f("):
        assert_masked(str(it.session.complete(code, len(code))), expect_mask=False)
        assert_masked(str(it.session.explain(code, len(code))), expect_mask=False)
    assert [item.label for item in it.session.complete("d['oth", 6).items] == ["other"]


# Without a screen


def test_headless_question_hides_the_key(
    service: Service,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    forms = (
        AnswerForm(),
        AnswerForm(prints_events=True),
        AnswerForm(OutputForm.JSON),
        AnswerForm(OutputForm.CODE),
    )
    for form in forms:
        service.replies = [
            OPENAI.reply(f"```python\n{PRINT_KEY}\nkey\n```"),
            OPENAI.reply(f"It is {KEY}, \0{chr(0).join(KEY)}."),
        ]
        settings = load_settings(model="openai:our-own", reflection="never", approval="auto")
        assert ask_questions(iter([f"is it {KEY}?"]), settings, [], form=form) == 0
        captured = capsys.readouterr()
        assert_masked(captured.out, expect_mask=form.output is not OutputForm.CODE)
        assert_masked(captured.err, expect_mask=not form.prints_events)


@pytest.mark.parametrize("output", OutputForm)
def test_failure_of_a_headless_question_hides_the_key(
    service: Service,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: OutputForm,
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    body = json.dumps({"error": {"message": f"no account for {KEY}"}})
    service.replies = [Reply([body.encode()], 400, {"content-type": "application/json"})]
    settings = load_settings(model="openai:our-own", reflection="never")
    form = AnswerForm(output)
    assert ask_questions(iter(["who?"]), settings, [], form=form) == FAILED_CODE
    captured = capsys.readouterr()
    assert_masked(captured.out, expect_mask=output is OutputForm.JSON)
    assert_masked(captured.err)
    assert "no account for" in captured.err


def test_name_of_a_session_saved_by_ask_hides_the_key(
    service: Service, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    service.replies = [OPENAI.reply("Nobody.")]
    settings = load_settings(model="openai:our-own", reflection="never")
    choice = SessionChoice(title=f"about {KEY}")
    assert ask_questions(iter(["who?"]), settings, [], choice=choice) == 0
    (session,) = list_sessions(database())
    assert session.title == f"about {MASK}"


@pytest.mark.parametrize("as_json", [False, True])
def test_headless_search_hides_the_key(
    service: Service, project: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    (project / "long.txt").write_text(f"the key is {KEY}\n" * 3000)
    answer = "```python\nprint(peek(50))\nFINAL('\\0'.join(peek(40)))\n```"
    model = ScriptedModel(reply=replies({f"what is it, {MASK}?": answer}))
    query = f"what is it, {KEY}?"
    settings = load_settings()
    log = project / "log.jsonl"
    options: Any = {"model": model, "log": log, "as_json": as_json, "yes": False}
    code = search_once(query, "long.txt", settings, SearchLimits(), **options)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert_masked(captured.out)
    assert_masked(captured.err, expect_mask=False)
    assert_masked(log.read_text())


# What was typed hidden


def test_getpass_value_is_usable_in_code_and_shown_nowhere(
    it: SecretDoors, service: Service
) -> None:
    type_hidden(it, "word", "xyzzy-of-mine")
    assert (
        it.run("len(word), word == 'xyzzy' + '-of-mine', word[::-1]").text
        == "(13, True, 'enim-fo-yzzyx')\n"
    )
    assert it.run("word").text == f"'{MASK}'\n"
    it.run("pair = [word]; print(word, '\\0'.join(word)); raise ValueError(word)")
    service.replies = [OPENAI.reply("Fine.")]
    it.session.agent.ask("what is in xyzzy-of-mine?")
    assert "xyzzy-of-mine" not in it.everything.all_text()
    assert "xyzzy-of-mine" not in json.dumps(service.asked)
    assert [
        (change.described.type, change.described.summary)
        for record in it.store.of(tags.NAMESPACE)
        for change in record.changes
        if change.name == "word"
    ] == [("str", f"'{MASK}'")]


def test_hidden_input_is_secret_before_it_can_be_printed(it: SecretDoors) -> None:
    it.session.submit(
        "python",
        "import getpass\nfor letter in getpass.getpass(): print(letter, end='', flush=True)",
    )
    answer_input(it, "xyzzy-of-mine")
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).text == f"Password: \n{MASK}"
    assert "xyzz" not in it.everything.streamed()


def test_short_secret_is_masked_alone_and_nothing_else_with_it(it: SecretDoors) -> None:
    type_hidden(it, "number", "12")
    assert it.run("print('12 of 12')").text == "12 of 12\n"
    assert it.run("number").text == f"{MASK}\n"
    assert [
        variable.summary for variable in it.session.kernel.variables() if variable.name == "number"
    ] == [MASK]
    look = it.session.open_inspector()
    assert look.text((["name", "number"],), 0, 99).text == "••"


def test_hidden_input_of_an_agents_cell_is_secret_too(it: SecretDoors) -> None:
    code = "import getpass\nword = getpass.getpass()\nprint(word)\nword"
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(it.join_agent(), "evaluate", code=code)
        answer_input(it, "xyzzy-of-mine")
    assert "xyzzy" not in json.dumps(answer.result())
    assert "xyzzy" not in it.everything.all_text()


def test_openly_typed_line_is_not_a_secret(it: SecretDoors) -> None:
    it.session.submit("python", "word = input()")
    answer_input(it, "open-and-seen", hidden=False)
    it.store.wait(tags.USER_REPL_OUT, cell=1)
    assert it.run("word").text == "'open-and-seen'\n"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "typed", "password stdout waiting interrupted duration assistant namespace cell None".split()
)
def test_session_continues_when_one_of_its_own_words_was_typed_hidden(
    it: SecretDoors, service: Service, typed: str
) -> None:
    type_hidden(it, "word", typed)
    service.replies = [OPENAI.reply("```python\nprint(len(word))\n```"), OPENAI.reply("Done.")]
    it.ask_and_wait("how long?")
    assert it.run("len(word)").text == f"{len(typed)}\n"
    assert not it.store.of(tags.NOTICE, level="error")


# Names that look like secrets


def test_values_of_secret_looking_names_are_not_listed(it: SecretDoors, service: Service) -> None:
    it.run(
        "password = 'opensesame'; API_KEY = b'opensesame'; token = 70707070; tokens = 70; config = {'db_password': 'opensesame'}"
    )
    service.replies = [OPENAI.reply("Fine.")]
    it.session.submit("ask", "what is @password?")
    it.store.wait(tags.ASSISTANT_CHAT)
    requests_text = json.dumps(service.asked)
    assert "opensesame" not in requests_text.replace(
        "password = 'opensesame'; API_KEY = b'opensesame'", ""
    ).replace("'db_password': 'opensesame'", "")
    summaries = {
        change.name: change.described.summary
        for record in it.store.of(tags.NAMESPACE)
        for change in record.changes
    }
    assert [summaries[name] for name in ("password", "API_KEY", "token", "tokens", "config")] == [
        *(MASK, MASK, MASK, "70", "1 item")
    ]
    detail = it.session.kernel.inspect("password")
    assert (detail.summary, detail.text) == (MASK, MASK)
    assert "looks like a secret's" in detail.error
    serve = it.join_agent()
    listed = serve("contents", seen=True)
    listed.pop("others", None)
    answers = [listed, serve("inspect", name="API_KEY"), it.session.complete("passw", 5)]
    assert "opensesame" not in str([*answers, it.session.explain("password", 8)])
    look = it.session.open_inspector()
    config = look.open((["name", "config"],)).path
    assert [row.summary for row in look.children(config, 0, 9).children] == [MASK]
    assert look.text((["name", "password"],), 0, 99).text == "opensesame", "who opens it sees it"
    assert it.run("password").text == "'opensesame'\n", "and who asks for it"


# Keys of the configuration reach their provider, and nothing else.


@pytest.fixture
def keyed(service: Service, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose key is in `.env`; another key is in a configuration file, a third in the
    user's shell."""
    (project / ".env").write_text(
        f"OPENAI_COMPATIBLE_API_KEY={IN_ENV}\nMAHTAB_BASE_URL={service.url}/v1\n"
    )
    trust_project()
    (home / ".mahtab" / "config.toml").write_text(f'[api_keys]\nanthropic = "{IN_FILE}"\n')
    monkeypatch.setenv("OPENAI_API_KEY", IN_SHELL)
    return service


@pytest.fixture
def opened(keyed: Service) -> Iterator[Opened]:
    it = Opened.make(load_settings(model="openai:our-own", reflection="never"))
    it.session.start()
    yield it
    it.session.close()


def stored(it: Opened) -> str:
    return "".join(f"{record.text}{json.dumps(record.attrs)}" for record in it.store.records)


def test_key_in_env_file_reaches_its_provider(opened: Opened, keyed: Service) -> None:
    keyed.replies = [OPENAI.reply("Hello")]
    assert opened.session.agent.ask("hi") == "Hello"
    assert keyed.headers[0]["authorization"] == f"Bearer {IN_ENV}"
    assert IN_ENV not in stored(opened)


def test_kernel_has_the_users_variables_but_no_configured_key(opened: Opened) -> None:
    # Counted in the kernel: what it prints is masked.
    count = "import os, subprocess\nseen = str(os.environ) + subprocess.run(['env'], capture_output=True, text=True).stdout\n"
    output = opened.run(f"{count}seen.count('sk-in-'), seen.count('{IN_SHELL}')")
    assert output.text == "(0, 2)\n"
    assert not any("sk-in-" in value for value in os.environ.values())


def test_claude_program_does_not_receive_a_configured_key(
    keyed: Service, install_claude: InstallClaude
) -> None:
    fake = install_claude("answers", answers=["Hi."])
    it = Opened.make(load_settings(model="claude"))
    it.session.start()
    try:
        it.session.agent.ask("hi")
    finally:
        it.session.close()
    (started,) = fake.starts
    assert started["keys"] == []
    assert "sk-in-" not in json.dumps(fake.received) + stored(it)


def test_error_quoting_the_key_is_masked(opened: Opened, keyed: Service) -> None:
    keyed.replies = [refusing(401, f"Incorrect API key provided: {IN_ENV}.")]
    opened.session.submit("ask", "hi")
    message = opened.store.wait(tags.NOTICE, level="error").text
    assert "Incorrect API key provided: ••••••••" in message
    assert IN_ENV not in stored(opened)


def test_cell_output_is_stored_and_sent_without_keys(opened: Opened, keyed: Service) -> None:
    output = opened.run("text = open('.env').read()\nprint(text)").text
    assert "OPENAI_COMPATIBLE_API_KEY=••••••••" in output
    keyed.replies = [OPENAI.reply("Hello")]
    opened.session.agent.ask("what did it print?")
    assert "••••••••" in json.dumps(keyed.asked, ensure_ascii=False)
    assert IN_ENV not in json.dumps(keyed.asked) + stored(opened)


def test_search_without_a_session_hides_the_key_too(keyed: Service) -> None:
    keyed.replies = [refusing(401, f"Incorrect API key provided: {IN_ENV}.")]
    llm = get_llm("openai:our-own", **load_settings().model_access())
    with pytest.raises(ModelError, match=r"Incorrect API key provided: ••••••••\."):
        llm.invoke("hi")
    assert IN_ENV not in repr(llm)


def test_streamed_cell_output_is_shown_without_keys(opened: Opened, project: Path) -> None:
    shown_texts: list[str] = []

    class Screen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (value := get_record(record)).tag == tags.USER_REPL_OUT_STREAM:
                shown_texts.append(value.text)

    opened.session.log.addHandler(Screen())
    read = "key = open('.env').readline().partition('=')[2].strip()"
    wait = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)"
    opened.session.submit(
        "python",
        f"{read}\nprint('it is', key[:9], end='', flush=True)\n{wait}\nprint(key[9:], 'indeed')",
    )
    wait_for(lambda: shown_texts)
    (project / "go").touch()
    assert opened.store.wait(tags.USER_REPL_OUT, cell=1).text == f"it is {MASK} indeed\n"
    assert "".join(shown_texts) == f"it is {MASK} indeed\n"
