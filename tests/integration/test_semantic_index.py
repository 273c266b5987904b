"""Search by meaning: skills, tools and code through the real package of a provider, over a service
on this machine."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Notice, Usage
from mahtab_tui.knowledge.library import SkillLibrary
from mahtab_tui.knowledge.semantic_index import SemanticIndex, merge_rankings
from mahtab_tui.knowledge.skills import SkillsLoader
from mahtab_tui.llm.embedding import EmbeddingModel
from mahtab_tui.llm.usage import Spending
from mahtab_tui.store.session_search import Vectors
from tests.embedding_service import EmbeddingService, embedding
from tests.integration.sessions import Opened, OpenSession
from tests.labelled_skills import TOPICS, queries, skills
from tests.skills import write_skill
from tests.waiting import wait_for

OWN = Path(__file__).resolve().parents[1] / "servers"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with embedding(TOPICS) as service:
        yield service


@pytest.fixture
def opened(open_session: OpenSession, service: EmbeddingService, project: Path) -> OpenSession:
    write_skill(project / "skills", "merge-invoice", "How to merge the bill.", "Do it.")
    write_skill(project / "skills", "draw-forest", "How to draw the trees.", "Do it.")

    def open_it(**more: object) -> Opened:
        settings = {
            "embedding_model": "openai:own",
            "base_url": service.url,
            "skills_dir": (project / "skills",),
            **more,
        }
        return open_session(**settings)

    return open_it


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.semantic_index._PATIENCE", 60.0)


def meaning_of(
    service: EmbeddingService, home: Path, problems: list[str], **more: object
) -> SemanticIndex:
    model = EmbeddingModel(
        "openai:own",
        Spending(),
        lambda used: None,
        base_url=service.url,
        **more,  # type: ignore[arg-type]
    )
    return SemanticIndex(
        model,
        lambda: Vectors(home / ".mahtab" / "vectors.db", problems.append),
        str,
        problems.append,
    )


@pytest.fixture
def source(project: Path) -> Path:
    (project / "src").mkdir()
    return project / "src"


def notices(it: Opened) -> list[str]:
    return [record.text for record in it.store.records if isinstance(record, Notice)]


def called(it: Opened, code: str) -> str:
    return it.session.cells.run(f"print({code})").output


def test_rankings_are_merged() -> None:
    assert merge_rankings(["a", "b", "c"], ["c", "d"]) == ["c", "a", "b", "d"]
    assert merge_rankings(["a"], []) == ["a"]


def test_words_and_meaning_together_find_more_skills_than_words_alone(
    service: EmbeddingService, home: Path, tmp_path: Path
) -> None:
    for name, description in skills().items():
        write_skill(tmp_path / "skills", name, description, "Do it.")
    loader = SkillsLoader(tmp_path / "skills")
    figures = []
    for meaning in (None, meaning_of(service, home, [])):
        library = SkillLibrary(loader, pytest.fail, meaning)
        ranked = [(library.nearest(query.text, 300), query.skill) for query in queries()]
        ranks = [
            names.index(skill) + 1 if skill in names else float("inf") for names, skill in ranked
        ]
        figures.append(
            (
                sum(1 / rank for rank in ranks) / len(ranks),
                sum(rank <= 5 for rank in ranks) / len(ranks),
            )
        )
    (words, words_at_5), (both, both_at_5) = figures
    assert len(skills()) == 300
    assert len(queries()) == 60
    assert words < 0.5 < 0.8 < both
    assert words_at_5 < 0.5 < 0.95 < both_at_5


def test_search_skills_finds_by_meaning_and_exact_names_stay_first(
    opened: OpenSession, project: Path
) -> None:
    it = opened()
    assert (
        called(it, "search_skills('combine the receipt', 1)")
        == "merge-invoice: How to merge the bill.\n"
    )
    for name in ("pay-receipts", "sort-receipts"):
        write_skill(project / "skills", name, "Receipt, receipt, receipt.", "Voucher.")
    write_skill(
        project / "skills",
        "receipt",
        "Something else, with customer, picture, salary, forest, vehicle, website, sensor, patient.",
        "Else.",
    )
    it.session.knowledge.skills.invalidate()
    assert called(it, "search_skills('receipt', 1)").startswith("receipt: Something else")
    assert [used.source for used in it.store.records if isinstance(used, Usage)][:1] == [
        "embedding"
    ]
    assert it.session.spending.total.calls > 0


def test_service_at_a_base_url_does_not_receive_the_openai_key(
    opened: OpenSession, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-openai-openai")
    called(opened(), "search_skills('combine the receipt')")
    assert service.headers
    assert "sk-openai" not in json.dumps(service.headers)


def test_each_text_is_embedded_once_for_all_sessions(
    opened: OpenSession, service: EmbeddingService, home: Path
) -> None:
    called(opened(), "search_skills('combine the receipt')")
    called(opened(), "search_skills('combine the receipt')")
    documents = [text for text in service.texts if "Do it." in text]
    assert len(documents) == len(set(documents)) > 1
    assert (home / ".mahtab" / "vectors.db").stat().st_mode & 0o077 == 0


def test_no_trace_mode_writes_no_vectors(
    service: EmbeddingService, project: Path, home: Path
) -> None:
    from mahtab_tui.kernel.process import ProcessKernel
    from mahtab_tui.session import Session
    from mahtab_tui.session.info import HeadlessFrontend
    from mahtab_tui.settings.model import load_settings
    from tests.integration.sessions import Watched

    write_skill(project / "skills", "merge-invoice", "How to merge the bill.", "Do it.")
    given = {
        "embedding_model": "openai:own",
        "base_url": service.url,
        "skills_dir": (project / "skills",),
    }
    it = Opened(
        Session(
            load_settings(model="demo", **given),
            ProcessKernel(),
            HeadlessFrontend(),
            store=(store := Watched()),
            no_trace=True,
        ),
        store,
    )
    it.session.start()
    assert "merge-invoice" in called(it, "search_skills('combine the receipt', 1)")
    it.session.close()
    assert service.texts
    assert not (home / ".mahtab" / "vectors.db").exists()


def test_secrets_and_private_texts_are_not_sent(
    opened: OpenSession, service: EmbeddingService, project: Path
) -> None:
    it = opened()
    it.session.secrets.add("hunter2-hunter2")
    it.run("word = 'a canary that sings'", "private('word')")
    write_skill(
        project / "skills",
        "keys",
        "How to merge.",
        "x " * 1_983 + "Use hunter2-hunter2 and a canary that sings.",
    )
    (project / "code.py").write_text(
        "def one():\n    return 'hunter2-hunter2', 'a canary that sings'\n"
    )
    called(it, "search_skills('merge the hunter2-hunter2')")
    called(it, "search_code('what sings like a canary that sings')")
    assert any("def one" in text for text in service.texts)
    assert "hunter2" not in json.dumps(service.asked)
    assert "canary that sings" not in json.dumps(service.asked)


def test_search_code_finds_parts_of_the_project_by_meaning(
    opened: OpenSession, service: EmbeddingService, source: Path
) -> None:
    it = opened(code_dir=source)
    (source / "billing.py").write_text("def total():\n    '''Combine each receipt.'''\n")
    (source / "trees.py").write_text("def picture():\n    '''Draw the trees of the jungle.'''\n")
    (source / ".gitignore").write_text("secret.py\n")
    (source / "secret.py").write_text("def hidden():\n    '''Merge what nobody shall see.'''\n")
    found = called(it, "search_code('merge an invoice')")
    assert found.startswith(
        "No line matches.\n\nNear in words and meaning:\nbilling.py:1-2\n     1  def total():\n"
    )
    assert "nobody shall see" not in json.dumps(service.asked)
    assert "Near in" not in called(it, "search_code('billing.py:1-2 trees', '*.md')")
    before = len(service.asked)
    assert called(it, r"search_code(r'def \w+\(')").startswith("billing.py\n")
    assert called(it, "search_code('picture')").startswith("trees.py\n")
    assert len(service.asked) == before, (
        "a regular expression and a single word are not asked about"
    )


def test_changed_files_are_reread_and_only_their_parts_are_sent(
    opened: OpenSession, service: EmbeddingService, source: Path
) -> None:
    it = opened(code_dir=source)
    (source / "one.py").write_text("def one():\n    '''Draw the trees.'''\n")
    (source / "two.py").write_text("def two():\n    '''Count.'''\n")
    called(it, "search_code('merge an invoice')")
    (source / "two.py").write_text("def two():\n    '''Combine each receipt.'''\n")
    assert "meaning:\ntwo.py:1-2" in called(it, "search_code('merge an invoice')")
    assert [
        sum("def one" in text for text in service.texts),
        sum("def two" in text for text in service.texts),
    ] == [1, 2]


def test_large_project_is_searched_partly_with_a_note(
    opened: OpenSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.semantic_index.MOST", 3)
    it = opened(code_dir=source)
    for number in range(7):
        (source / f"part{number}.py").write_text("def one():\n    '''Merge.'''\n")
    assert "only its first 3 parts are searched, 4 files are not" in called(
        it, "search_code('merge an invoice')"
    )


def test_server_tools_are_found_by_meaning(opened: OpenSession) -> None:
    servers = {"friendly": {"command": sys.executable, "args": [str(OWN / "friendly.py")]}}
    assert "No tool fits" in called(
        opened(mcp=servers, embedding_model=None), "tools.search('xylophone')"
    )
    assert called(opened(mcp=servers), "tools.search('xylophone')").startswith("friendly."), (
        "something is always nearest"
    )


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"error": {"message": "bad key sk-aaaaaaaaaaaaaaaa"}}, "The key was not accepted"),
        (500, {"error": {"message": "it broke"}}, "The service failed"),
        (200, {"data": []}, "Search by meaning does not work"),
        (
            200,
            {"object": "list", "data": [{"embedding": [], "index": 0}]},
            "Search by meaning does not work",
        ),
        (
            200,
            {"object": "list", "data": [{"embedding": [None, 1], "index": 0}]},
            "Search by meaning does not work",
        ),
        (200, [], "Search by meaning does not work"),
    ],
)
def test_failing_service_falls_back_to_words_with_one_notice(
    opened: OpenSession,
    service: EmbeddingService,
    status: int,
    body: object,
    message: str,
) -> None:
    service.status, service.body = status, body
    it = opened(api_keys={"openai_compatible": "sk-aaaaaaaaaaaaaaaa"})
    assert called(it, "search_skills('merge')").startswith("merge-invoice")
    assert called(it, "search_skills('draw')").startswith("draw-forest")
    wait_for(lambda: bool(notices(it)))
    assert all(
        "Search by meaning does not work, so words alone decide. " in notice
        for notice in notices(it)
    )
    assert len(set(notices(it))) == len(notices(it))
    assert any(message in notice for notice in notices(it))
    assert "sk-aaaa" not in "".join(notices(it))


def test_hanging_service_is_not_tried_again(
    opened: OpenSession, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.semantic_index._PATIENCE", 0.3)
    service.hang.clear()
    it = opened()
    assert called(it, "search_skills('merge')").startswith("merge-invoice")
    assert notices(it) == [
        "Search by meaning does not work, so words alone decide. The embedding model has not answered within 0.3 s."
    ]
    assert called(it, "search_skills('draw')").startswith("draw-forest")
    assert not any("draw" in each["input"] for each in service.asked)
    assert len(notices(it)) == 1


def test_missing_service_or_package_is_reported(
    opened: OpenSession, service: EmbeddingService
) -> None:
    it = opened(base_url="http://127.0.0.1:9/v1")
    assert called(it, "search_skills('merge')").startswith("merge-invoice")
    wait_for(lambda: "cannot be reached" in "".join(notices(it)))
    other = opened(embedding_model="cohere:embed-english-v3.0")
    assert called(other, "search_skills('merge')").startswith("merge-invoice")
    assert (
        "embedding_model needs packages that are not installed: pip install langchain-cohere"
        in "".join(notices(other))
    )
    third = opened(embedding_model="nobody:model")
    called(third, "search_skills('merge')")
    assert "nobody:model cannot be used" in "".join(notices(third))


def test_cost_limit_applies_to_embeddings_too(
    opened: OpenSession, service: EmbeddingService
) -> None:
    it = opened(
        max_usd=1e-9,
        embedding_model="openai:text-embedding-3-large",
        base_url=None,
        api_keys={"openai": "sk-aaaaaaaaaaaaaaaa"},
    )
    assert called(it, "search_skills('merge')").startswith("merge-invoice")
    assert notices(it)[0].startswith(
        "Search by meaning does not work, so words alone decide. The model was not asked: "
    )


def test_damaged_vectors_are_moved_away(
    service: EmbeddingService, home: Path, tmp_path: Path
) -> None:
    write_skill(tmp_path, "merge-invoice", "How to merge the bill.", "Do it.")
    write_skill(tmp_path, "draw-forest", "How to draw the trees.", "Do it.")
    path = home / ".mahtab" / "vectors.db"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no database" * 1_000)
    problems: list[str] = []
    library = SkillLibrary(SkillsLoader(tmp_path), pytest.fail, meaning_of(service, home, problems))
    assert library.nearest("combine the receipt", 1) == ["merge-invoice"]
    (problem,) = problems
    assert "was damaged" in problem
    assert list(path.parent.glob("vectors.db.damaged-*"))
    with sqlite3.connect(path) as database:
        assert database.execute("select count(*) from vector").fetchone() == (2,)
    database.close()


def test_vectors_of_different_lengths_are_not_compared(
    service: EmbeddingService, home: Path, tmp_path: Path
) -> None:
    write_skill(tmp_path, "merge-invoice", "How to merge the bill.", "Do it.")
    assert SkillLibrary(SkillsLoader(tmp_path), pytest.fail, meaning_of(service, home, [])).nearest(
        "combine", 1
    ) == ["merge-invoice"]
    service._length = 7
    service._known.clear()
    problems: list[str] = []
    assert (
        SkillLibrary(
            SkillsLoader(tmp_path), pytest.fail, meaning_of(service, home, problems)
        ).nearest("combine", 1)
        == []
    )
    assert not problems


def test_embedding_code_is_not_loaded_without_a_model() -> None:
    script = (
        "import sys\nfrom mahtab_tui.session import Session\nfrom mahtab_tui.kernel.inprocess import InProcessKernel\n"
        "from mahtab_tui.session.info import HeadlessFrontend\nfrom mahtab_tui.settings.model import load_settings\n"
        "it = Session(load_settings(), InProcessKernel({}), HeadlessFrontend())\n"
        "it.knowledge.toolset.run('search_skills', {'query': 'merge'})\nit.knowledge.toolset.run('search_code', {'pattern': 'merge an invoice'})\n"
        "it.close(keep_kernel=True)\n"
        "print([name for name in ('numpy', 'langchain.embeddings', 'mahtab_tui.knowledge.semantic_index') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert done.stdout == "[]\n"
