"""The lists to choose a kernel or a model from."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from mahtab_tui.kernel.values import KernelInfo, KernelState
from mahtab_tui.llm import choices
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.commands import BY_ID
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.kernel_choices import KernelChoice
from mahtab_tui.tui.screens import kernel_picker
from mahtab_tui.tui.screens.kernel_picker import KernelPicker
from mahtab_tui.tui.screens.model_picker import ModelPicker
from tests.fake_claude import InstallClaude
from tests.services import serving
from tests.tui.editor_app import (
    screen_text,
    static_text,
    until,
    wait_for_close,
    wait_for_screen,
    write,
)
from tests.tui.scripted_session import MakeApp, drawn, sales_records, showing

HERE = KernelChoice("here", "here", "Python 3.12.1, /usr/bin/python3")
OTHERS = (
    KernelChoice("here", "here", "this machine"),
    KernelChoice("python", ".venv", "an environment of this machine"),
    KernelChoice("session", "1a2b3c4d", "runs cell 3: opens its session"),
    KernelChoice("address", "ssh://me@[b]host\x1b]0;x\x07", "used before"),
)


@pytest.fixture(autouse=True)
def other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has the kernels of the list."""
    monkeypatch.setattr(kernel_picker, "other_kernels", lambda info, recent: OTHERS)


async def open_kernels(pilot: Pilot[int], chosen: list[KernelChoice | None]) -> None:
    info = KernelInfo("3.12.1", "/usr/bin/python3", "/", 1, KernelState.IDLE)
    picker = KernelPicker(info, ())
    pilot.app.push_screen(picker, chosen.append)
    await until(pilot, lambda: pilot.app.screen is picker and len(picker.rows) == len(OTHERS))


async def test_the_list_shows_every_kind_of_kernel(make_app: MakeApp) -> None:
    async with make_app().run_test() as pilot:
        await open_kernels(pilot, [])
        await pilot.pause()
        text = screen_text(pilot)
    for line in (
        "● here                               Python 3.12.1, /usr/bin/python3",
        ".venv                              an environment of this machine",
        "1a2b3c4d                           runs cell 3: opens its session",
        "ssh://me@[b]host                   used before",
        "Enter switches · or type ssh://host · Esc cancels",
    ):
        assert line in text


async def test_kernel_can_be_chosen_typed_or_none(make_app: MakeApp) -> None:
    chosen: list[KernelChoice | None] = []
    async with make_app().run_test() as pilot:
        await open_kernels(pilot, chosen)
        await pilot.press("enter")
        await until(pilot, lambda: "This kernel is in use" in static_text(pilot, ".listing-said"))
        await pilot.press("escape")
        await until(pilot, lambda: len(chosen) == 1)
        for keys in (["down"], [*"ssh", "colon", "slash", "slash", *"new"]):
            await open_kernels(pilot, chosen)
            await pilot.press(*keys, "enter")
            await wait_for_close(pilot)
        await until(pilot, lambda: len(chosen) == 3)
    assert chosen == [None, OTHERS[1], KernelChoice("address", "ssh://new", "as typed")]


@pytest.fixture(autouse=True)
def claude(install_claude: InstallClaude) -> None:
    install_claude("answers", answers=["Hi."])


def picker(pilot: Pilot[int]) -> ModelPicker:
    screen = pilot.app.screen
    assert isinstance(screen, ModelPicker)
    return screen


def specs(pilot: Pilot[int]) -> list[str]:
    return [row.spec for row in picker(pilot).rows]


async def open_picker(pilot: Pilot[int]) -> None:
    """Open the list of models, which may not be complete yet."""
    await drawn(pilot)
    await pilot.press("f2", *"/model", "enter")
    await wait_for_screen(pilot, ModelPicker)


async def open_models(pilot: Pilot[int]) -> None:
    """Open the list of models, and wait until it is complete."""
    await open_picker(pilot)
    await until(pilot, lambda: bool(picker(pilot)._models) and "ollama:" in specs(pilot))
    await until(pilot, lambda: static_text(pilot, ".listing-count") == "")
    await pilot.pause()


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app(*sales_records())


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test() as pilot:
        await open_models(pilot)
        yield pilot


async def enter(pilot: Pilot[int]) -> str:
    """Choose the marked model."""
    await pilot.press("enter")
    await wait_for_close(pilot, ModelPicker)
    assert isinstance(pilot.app, MahtabApp)
    return pilot.app.session.model


async def test_current_model_says_how_it_is_led_and_why(app: MahtabApp, pilot: Pilot[int]) -> None:
    words = "chosen now · loop: steps, because its size is not known"
    await until(pilot, lambda: words in static_text(pilot, ".listing-about"))


async def test_models_are_listed_and_missing_ones_explained(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    text = screen_text(pilot)
    for line in (
        "● demo                       chosen now",
        "claude:opus                the claude program, with your login",
        "✗ anthropic:…                anthropic:NAME needs a key: set ANTHRO…",
        "✗ openai:…                   openai:NAME needs a key: set OPENAI_AP…",
        "ollama:…                   type a model's name after it",
        "Enter chooses · any name can be typed · Esc cancels",
    ):
        assert line in text
    assert specs(pilot)[:2] == ["demo", "claude"]
    assert {"claude:opus", "anthropic:", "openai:", "openrouter:"} < set(specs(pilot))
    await write(pilot, "anthropic")
    await pilot.press("enter")
    assert "ANTHROPIC_API_KEY" in static_text(pilot, ".listing-said")
    assert isinstance(app.screen, ModelPicker)
    assert app.session.model == "demo"


@pytest.mark.thorough
async def test_models_of_local_servers_are_listed(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as llama, serving() as ollama:
        monkeypatch.setattr(choices, "_MODEL_LIST_TIMEOUT_S", 30.0)
        monkeypatch.setenv("LLAMACPP_HOST", llama.url)
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        llama.documents = {"/v1/models": {"data": [{"id": "org/[b]x:8b"}, {"id": "\x1b[2Jx"}]}}
        ollama.documents = {"/api/tags": {"models": []}}
        async with make_app().run_test(size=(120, 40)) as pilot:
            await open_models(pilot)
            listed = specs(pilot)
            assert listed.index("llamacpp:org/[b]x:8b") + 1 == listed.index("anthropic:")
            rows = {row.spec: row.about for row in picker(pilot).rows}
            assert rows["llamacpp:org/[b]x:8b"] == f"at {llama.url}"
            assert rows["ollama:"] == "type a model's name after it"
            await write(pilot, "org/")
            assert await enter(pilot) == "llamacpp:org/[b]x:8b"


async def test_typing_filters_and_enter_selects_the_model(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await write(pilot, "opus")
    await until(pilot, lambda: specs(pilot) == ["claude:opus", "opus"])
    assert await enter(pilot) == "claude:opus"
    assert app.ui_state.models[:2] == ("claude:opus", "demo")


@pytest.mark.thorough
async def test_any_name_can_be_typed_and_an_unknown_one_is_reported(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await write(pilot, "[/x]nonsense")
    await pilot.press("enter")
    await until(
        pilot, lambda: "There is no model '[/x]nonsense'" in static_text(pilot, ".listing-said")
    )
    app.screen.query_one(LineInput).value = ""
    await write(pilot, "claude-opus-9")
    assert await enter(pilot) == "claude-opus-9"


@pytest.mark.thorough
async def test_choosing_a_provider_asks_for_the_model_name(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await write(pilot, "ollama")
    await pilot.press("enter")
    await until(pilot, lambda: app.screen.query_one(LineInput).value == "ollama:")
    await write(pilot, "tiny")
    await until(pilot, lambda: specs(pilot) == ["ollama:tiny"])
    assert await enter(pilot) == "ollama:tiny"


async def test_previously_used_models_are_offered_again(make_app: MakeApp, project: Path) -> None:
    (project / "a.jsonl").write_text('{"text": "a"}\n')
    app = make_app()
    async with showing(app) as pilot:
        BY_ID["model"].run(app.command_context, "replay:a.jsonl")
        await until(pilot, lambda: app.session.model == "replay:a.jsonl")
    app.ui_state.save()
    again = make_app()
    async with again.run_test() as pilot:
        await open_models(pilot)
        assert specs(pilot)[:2] == ["demo", "replay:a.jsonl"]
        assert "used before" in str(pilot.app.screen.query_one(OptionList).options[1].prompt)


class LateDocuments(dict[str, Any]):
    """Documents of a service that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answer_now = threading.Event()

    def get(self, path: str, default: object = None) -> object:
        self.answer_now.wait(30)
        return super().get(path, default)


@pytest.fixture
def late_documents(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateDocuments]:
    """Let servers on this machine list two models when they are told to."""
    with serving() as llama:
        monkeypatch.setattr(choices, "_MODEL_LIST_TIMEOUT_S", 30.0)
        monkeypatch.setenv("LLAMACPP_HOST", llama.url)
        monkeypatch.setenv("OLLAMA_HOST", llama.url)
        documents = LateDocuments()
        documents["/v1/models"] = {"data": [{"id": "first"}, {"id": "second"}]}
        llama.documents = documents
        yield documents


async def test_a_model_that_is_found_later_comes_before_the_name_as_typed(
    make_app: MakeApp, late_documents: LateDocuments
) -> None:
    async with make_app().run_test(size=(120, 40)) as pilot:
        await open_picker(pilot)
        await until(pilot, lambda: "openrouter:" in specs(pilot))
        await pilot.press(*"second")
        await until(pilot, lambda: specs(pilot) == ["second"])
        late_documents.answer_now.set()
        await until(pilot, lambda: "llamacpp:second" in specs(pilot))
        chosen = picker(pilot).chosen
        assert chosen is not None
        assert chosen.spec == "llamacpp:second"


async def test_the_cursor_stays_on_its_model_when_servers_answer(
    make_app: MakeApp, late_documents: LateDocuments
) -> None:
    async with make_app().run_test(size=(120, 40)) as pilot:
        await open_picker(pilot)
        await until(pilot, lambda: "openrouter:" in specs(pilot))
        await pilot.press(*["down"] * specs(pilot).index("openrouter:"))
        late_documents.answer_now.set()
        await until(pilot, lambda: "llamacpp:second" in specs(pilot))
        chosen = picker(pilot).chosen
        assert chosen is not None
        assert chosen.spec == "openrouter:"


@pytest.mark.parametrize("constant", ["_CLAUDE_MODELS", "_MODEL_LIST_TIMEOUT_S"])
async def test_models_that_cannot_be_listed_are_reported(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, constant: str
) -> None:
    # A fault of the program.
    monkeypatch.setattr(choices, constant, None)
    async with make_app().run_test(size=(120, 40)) as pilot:
        await open_picker(pilot)
        await until(
            pilot, lambda: "The list is not complete. " in static_text(pilot, ".listing-said")
        )
        assert static_text(pilot, ".listing-count") == ""
