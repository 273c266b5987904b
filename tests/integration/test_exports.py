"""Real sessions as files: a notebook that runs elsewhere with the same outputs, and a page in a
real browser."""

from __future__ import annotations

import http.server
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mahtab_tui.bus import records
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.export.entries import Conversation, select
from mahtab_tui.export.writing import ENDINGS, write
from mahtab_tui.session.notebooks import ExportError, export, export_session, parse_export
from mahtab_tui.store.resume import find_session, new_store
from tests import tags
from tests.integration.sessions import Opened
from tests.services import LocalServer, answering
from tests.waiting import wait_for

CELLS = (
    "import math, statistics",
    "def mean_root(items): return statistics.mean(math.sqrt(item) for item in items)",
    "numbers = [n * n for n in range(5)]\nprint('made', len(numbers))",
    "mean_root(numbers)",
    "for n in numbers[:2]:\n    print(n)\nnumbers",
    "unrelated = open('/dev/null')",
    "class Point:\n    def __repr__(self): return 'Point!'\nPoint()",
)


def exported(it: Opened, typed: str, folder: Path) -> Path:
    """Export as ``/export`` does, and wait for it."""
    order = parse_export(typed, "demo", folder)
    export(it.session, order)
    wait_for(
        lambda: any(
            record.tag == tags.NOTICE and str(order.file) in record.text
            for record in it.store.records
        )
    )
    return order.path


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the output and value of each cell."""
    return [
        "".join(
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.get("outputs", ())
        )
        for cell in notebook.cells
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_exported_notebook_runs_from_scratch_with_the_same_outputs(
    open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session()
    it.run(*CELLS)
    before = nbformat.read(exported(it, "it.ipynb", project), as_version=4)
    after = NotebookClient(nbformat.from_dict(before), kernel_name="python3", timeout=60).execute()
    assert texts(after) == texts(before)
    assert texts(before)[4] == "0\n1\n[0, 1, 4, 9, 16]"


def test_private_texts_and_secrets_are_not_exported(
    open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session()
    it.session.secrets.add("hunter2hunter2")
    it.run(
        "word = 'the private sentence'",
        "private('word')",
        "print('the private ' + 'sentence')",
        "'hunter2hunter2'",
    )
    text = exported(it, "it.md", project).read_text()
    assert "the private sentence" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("shop", "shop"),
        ("", "session"),
        ("../../x", "x"),
        ("/etc/x", "x"),
        ("~/x", "x"),
        ("~root", "root"),
        ("..", "session"),
        ("a/~b", "b"),
    ],
)
def test_a_session_with_any_name_is_exported_into_its_folder(
    name: str, file: str, project: Path
) -> None:
    assert parse_export("", name, project).path == project / f"{file}.ipynb"


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("a.txt", "extension"),
        ("a.py b.py", "Name one file"),
        ("x", "extension"),
        ("1x", "extension"),
        ('"a b.py', "not closed"),
    ],
)
def test_wrong_export_command_gives_one_sentence(typed: str, sentence: str, project: Path) -> None:
    with pytest.raises(ExportError, match=sentence):
        parse_export(typed, "demo", project)


def test_quoted_name_may_contain_spaces(project: Path) -> None:
    assert (
        parse_export("'my report.html' whole", "demo", project).path == project / "my report.html"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("~nobody-of-this-name/x.md", "No such file or directory"),
        (f"{'x' * 300}.md", "File name too long"),
    ],
)
def test_impossible_name_gives_one_sentence(
    name: str, why: str, open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session()
    it.run("x = 1")
    export(it.session, parse_export(name, "demo", project))
    it.store.wait(tags.NOTICE, f"{name} cannot be written: {why}.")


def test_saved_session_is_exported_without_a_later_configured_key(
    open_session: Callable[..., Opened], home: Path, project: Path
) -> None:
    store, _, _ = new_store(project)
    for record in (
        records.UserReplIn("key = 'sk-later-1234567'", cell=1, party="you"),
        records.UserReplOut("", cell=1, status="ok"),
    ):
        store.append(record)
    store.close()
    mask = Secrets(lambda: ["sk-later-1234567"]).redact_for_model
    message = export_session(find_session(None, project), project / "it.ipynb", mask)
    assert message == f"Exported 1 cell to {project}/it.ipynb."
    assert "sk-later" not in (project / "it.ipynb").read_text()
    with pytest.raises(FileExistsError):
        export_session(find_session(None, project), project / "it.ipynb", mask)


@pytest.mark.parametrize("ending", ENDINGS)
def test_saved_session_is_exported_without_private_texts_from_its_cells(
    ending: str, home: Path, project: Path
) -> None:
    store, _, _ = new_store(project)
    for record in (
        records.UserReplIn("word = 'first private text'", cell=1, party="you"),
        records.UserReplOut("", cell=1, status="ok"),
        records.UserReplIn("print(word + 2)", cell=2, party="you"),
        records.UserReplOut("second private text\n", cell=2, status="ok"),
        records.Private(name="word", private=True, cells=(1, 2)),
        records.UserChat("Why first private text?", turn=1),
        records.UserAttachment("", turn=1, label="@second private text.csv"),
        records.UserReplIn("print('second private text')", cell=3, party="you"),
        records.UserReplOut("second private text\n", cell=3, status="ok"),
    ):
        store.append(record)
    store.close()
    message = export_session(find_session(None, project), project / f"it{ending}", str)
    assert message.endswith("Left out: 2 that use a private variable.")
    assert "private text" not in (project / f"it{ending}").read_text()


def test_missing_folder_gives_one_sentence(
    open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session()
    it.run("x = 1")
    export(it.session, parse_export("nowhere/x.md", "demo", project))
    it.store.wait(tags.NOTICE, "nowhere/x.md cannot be written: No such file or directory.")


def test_stored_session_exports_all_its_records(home: Path, project: Path) -> None:
    store, _, _ = new_store(project)
    for number in range(1, 6_001):
        store.append(records.UserReplIn(f"x{number}", cell=number, party="you"))
    assert len(Conversation(store.everything()).entries) == 6_000
    store.close()


@pytest.fixture
def asked_for() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None: ...

    with LocalServer(Handler) as server, answering(server):
        yield f"http://127.0.0.1:{server.server_port}", paths


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_page_in_a_real_browser_runs_and_loads_nothing(
    asked_for: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, paths = asked_for
    hostile = f"<script>document.title='ran'</script><img src='{url}/a' onerror=\"document.title='ran'\">![x]({url}/b)</pre></style><svg onload=\"document.title='ran'\">"
    past: list[records.Record] = [
        records.UserChat(hostile, turn=1),
        records.UserReplIn(hostile, cell=1, party="you"),
        records.Display(
            "t\n", cell=1, mime="text/html", data=f"<table><tr><td>{hostile}</td></tr></table>"
        ),
        records.UserReplOut(
            f"t\n{hostile}", cell=1, status="ok", kinds=(("display", 2), ("stdout", len(hostile)))
        ),
    ]
    file = tmp_path / "page.html"
    write(select(Conversation(past), "demo"), file)
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync"
    command = [
        "chromium",
        *options.split(),
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"file://{file}",
    ]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    assert "<title>ran</title>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert paths == []
