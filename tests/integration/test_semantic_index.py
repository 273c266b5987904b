"""Search by meaning, with a provider's real package and a service on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Usage
from mahtab_tui.knowledge.semantic_index import merge_rankings
from tests import tags
from tests.embedding_service import EmbeddingService, embedding
from tests.integration.sessions import Opened, OpenSession, texts
from tests.skills import write_skill
from tests.waiting import wait_for

TOPICS = {"combine": "merge", "receipt": "invoice", "bill": "invoice"}
OWN = Path(__file__).resolve().parents[1] / "servers"

PROBLEM = "Search by meaning does not work, so words alone decide. "


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with embedding(TOPICS) as service:
        yield service


@pytest.fixture
def opened(open_session: OpenSession, service: EmbeddingService, project: Path) -> OpenSession:
    write_skill(project / "skills", "merge-invoice", "How to merge the bill.", "Do it.")
    write_skill(project / "skills", "draw-forest", "How to draw the trees.", "Do it.")

    def open_it(**options: object) -> Opened:
        settings = {"embedding_model": "openai:own", "base_url": service.url}
        return open_session(**{**settings, "skills_dir": (project / "skills",), **options})

    return open_it


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.semantic_index.SEARCH_TIMEOUT_S", 60.0)


def notices(it: Opened) -> list[str]:
    return texts(it, tags.NOTICE)


def called(it: Opened, code: str) -> str:
    return it.session.cells.run(f"print({code})").output


def skills(it: Opened, query: str, limit: int = 5) -> str:
    return called(it, f"search_skills({query!r}, {limit})")


def test_rankings_are_merged() -> None:
    assert merge_rankings(["a", "b", "c"], ["c", "d"]) == ["c", "a", "b", "d"]
    assert merge_rankings(["a"], []) == ["a"]


def test_search_skills_finds_by_meaning_and_exact_names_stay_first(
    opened: OpenSession, service: EmbeddingService, project: Path
) -> None:
    it = opened()
    assert skills(it, "combine the receipt", 1) == "merge-invoice: How to merge the bill.\n"
    for name in ("pay-receipts", "sort-receipts"):
        write_skill(project / "skills", name, "Receipt, receipt, receipt.", "Voucher.")
    other_words = "customer, picture, salary, forest, vehicle, website, sensor, patient"
    write_skill(project / "skills", "receipt", f"Something else, with {other_words}.", "Else.")
    it.session.knowledge.skills.invalidate()
    assert skills(it, "receipt", 1).startswith("receipt: Something else")
    documents = [text for text in service.texts if "\n" in text]
    assert len(documents) == len(set(documents)), "unchanged texts are sent once"
    usage = next(record for record in it.store.records if isinstance(record, Usage))
    assert usage.source == "embedding"
    assert it.session.spending.total.calls > 0


def test_service_at_a_base_url_does_not_receive_the_openai_key(
    opened: OpenSession, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-openai-openai")
    skills(opened(), "combine the receipt")
    assert service.headers
    assert "sk-openai" not in json.dumps(service.headers)


def test_secrets_and_private_texts_are_not_sent(
    opened: OpenSession, service: EmbeddingService, project: Path
) -> None:
    it = opened()
    it.session.secrets.add("hunter2-hunter2")
    it.run("word = 'a canary that sings'", "private('word')")
    text = "x " * 1_983 + "Use hunter2-hunter2 and a canary that sings."
    write_skill(project / "skills", "keys", "How to merge.", text)
    skills(it, "merge the hunter2-hunter2")
    assert "hunter2" not in json.dumps(service.asked)
    assert "canary that sings" not in json.dumps(service.asked)


@pytest.mark.thorough
def test_server_tools_are_found_by_meaning(opened: OpenSession) -> None:
    servers = {"friendly": {"command": sys.executable, "args": [str(OWN / "friendly.py")]}}
    search = "tools.search('xylophone')"
    assert "No tool fits" in called(opened(mcp=servers, embedding_model=None), search)
    nearest = called(opened(mcp=servers), search)
    assert nearest.startswith("friendly."), "something is always nearest"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"error": {"message": "bad key sk-aaaaaaaaaaaaaaaa"}}, "The key was not accepted"),
        (500, {"error": {"message": "it broke"}}, "The service failed"),
        (200, {"object": "list", "data": [{"embedding": [], "index": 0}]}, "does not work"),
    ],
)
def test_failing_service_falls_back_to_words_with_one_notice(
    opened: OpenSession, service: EmbeddingService, status: int, body: object, message: str
) -> None:
    service.status = status
    service.body = body
    it = opened(api_keys={"openai_compatible": "sk-aaaaaaaaaaaaaaaa"})
    assert skills(it, "merge").startswith("merge-invoice")
    assert skills(it, "draw").startswith("draw-forest")
    wait_for(lambda: bool(notices(it)))
    assert all(PROBLEM in notice for notice in notices(it))
    assert len(set(notices(it))) == len(notices(it))
    assert any(message in notice for notice in notices(it))
    assert "sk-aaaa" not in "".join(notices(it))


def test_hanging_service_is_not_tried_again(
    opened: OpenSession, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.semantic_index.SEARCH_TIMEOUT_S", 0.3)
    service.hang.clear()
    it = opened()
    assert skills(it, "merge").startswith("merge-invoice")
    assert notices(it) == [f"{PROBLEM}The embedding model has not answered within 0.3 s."]
    assert skills(it, "draw").startswith("draw-forest")
    assert not any("draw" in request["input"] for request in service.asked)
    assert len(notices(it)) == 1


def test_missing_service_or_package_is_reported(
    opened: OpenSession, service: EmbeddingService
) -> None:
    it = opened(base_url="http://127.0.0.1:9/v1")
    assert skills(it, "merge").startswith("merge-invoice")
    wait_for(lambda: "cannot be reached" in "".join(notices(it)))
    other_session = opened(embedding_model="cohere:embed-english-v3.0")
    assert skills(other_session, "merge").startswith("merge-invoice")
    missing = "embedding_model needs packages that are not installed: pip install langchain numpy"
    assert f"{missing} langchain-cohere" in "".join(notices(other_session))
    third = opened(embedding_model="nobody:model")
    skills(third, "merge")
    assert "nobody:model cannot be used" in "".join(notices(third))


def test_cost_limit_applies_to_embeddings_too(
    opened: OpenSession, service: EmbeddingService
) -> None:
    model = "openai:text-embedding-3-large"
    keys = {"openai": "sk-aaaaaaaaaaaaaaaa"}
    it = opened(max_usd=1e-9, embedding_model=model, base_url=None, api_keys=keys)
    assert skills(it, "merge").startswith("merge-invoice")
    assert notices(it)[0].startswith(f"{PROBLEM}The model was not asked: ")


@pytest.mark.thorough
def test_embedding_code_is_not_loaded_without_a_model() -> None:
    script = """
import sys
from mahtab_tui.session import Session
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
it = Session(load_settings(), InProcessKernel({}), HeadlessFrontend())
it.knowledge.toolset.run("search_skills", {"query": "merge"})
it.knowledge.toolset.run("search_code", {"pattern": "merge an invoice"})
it.close(keep_kernel=True)
print({"numpy", "langchain.embeddings", "mahtab_tui.knowledge.semantic_index"} & {*sys.modules})
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
