"""Pictures, from a question to the services of models with vision."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.pictures import MAX_PICTURES, MAX_SIDE_PIXELS, accepts_pictures
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.mentions import MentionChip
from tests import tags
from tests.integration.kernels import Cells
from tests.integration.sessions import Opened, OpenSession
from tests.pictures import bomb, decoded, encoded, moving
from tests.records import made
from tests.services import OLLAMA, OPENAI, Protocol, Service, refusing
from tests.waiting import wait_for

DRAWS = "from PIL import Image\nim = Image.new('RGB', (64, 48), 'blue')"
BLIND = OPENAI._replace(spec="llamacpp:blind")
BLIND_SERVER = {"/props": {"modalities": {"vision": False}}}

PLOTS = """```python
import matplotlib.pyplot as plt
for number in range(3):
    plt.figure(figsize=(12, 6))
    plt.title(f"plot {number}")
    plt.plot([number])
    plt.show()
```"""


@pytest.fixture
def open_picture_session(service: Service, open_session: OpenSession, project: Path) -> OpenSession:
    """Open a session whose model is behind the service, in a folder with the picture a.png."""
    (project / "a.png").write_bytes(encoded(Image.new("RGB", (9, 9), "red")))
    return lambda protocol, **options: open_session(model=protocol.spec, **options)


def images(body: dict[str, Any]) -> list[str]:
    """The pictures of a request's messages, in base64, in the form of any protocol."""
    encoded_images: list[str] = []
    for message in body["messages"]:
        encoded_images += message.get("images") or []
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "image":
                assert block["source"]["type"] == "base64"
                encoded_images.append(block["source"]["data"])
            elif block["type"] == "image_url":
                head, _, data = block["image_url"]["url"].partition(",")
                assert re.fullmatch(r"data:image/(png|jpeg);base64", head)
                encoded_images.append(data)
    return encoded_images


def notices(it: Opened) -> list[str]:
    return [record.text for record in it.store.of(tags.NOTICE) if "picture" in record.text]


@pytest.mark.sample(2)
def test_pictures_from_files_and_variables_are_sent_scaled(
    service: Service, protocol: Protocol, open_picture_session: OpenSession, project: Path
) -> None:
    service.replies = [protocol.reply("I see.")]
    (project / "photo.png").write_bytes(encoded(Image.new("RGB", (3_136, 1_568), "red")))
    it = open_picture_session(protocol)
    it.run(DRAWS)
    it.ask_and_wait("what are @photo.png and $im?")
    sizes = [
        (decoded(data).size, decoded(data).getpixel((1, 1))) for data in images(service.asked[0])
    ]
    assert sizes == [((MAX_SIDE_PIXELS, 784), (255, 0, 0)), ((64, 48), (0, 0, 255))]
    sent = json.dumps(service.asked[0]["messages"], ensure_ascii=False)
    assert "1,568 × 784 px of 3,136 × 1,568" in sent
    assert not notices(it)


def test_later_questions_include_earlier_pictures_until_hidden(
    service: Service, open_picture_session: OpenSession
) -> None:
    service.replies = [OPENAI.reply("I see.")]
    it = open_picture_session(OPENAI)
    it.ask_and_wait("what is @a.png?")
    it.ask_and_wait("and its colour?")
    assert len(images(service.asked[1])) == 1
    it.ask_and_wait("once more @a.png")
    assert len(images(service.asked[2])) == 1, "the same picture goes once"
    it.session.entries.hide("question 1", True)
    it.session.entries.hide("question 3", True)
    it.ask_and_wait("what was it?")
    assert images(service.asked[3]) == []


def test_picture_is_stored_once_and_restored_with_the_session(
    service: Service, open_picture_session: OpenSession, project: Path
) -> None:
    service.replies = [OPENAI.reply("I see.")]
    it = open_picture_session(OPENAI)
    it.ask_and_wait("what is @a.png?")
    it.ask_and_wait("again: @a.png")
    first_attachment, second_attachment = it.store.of(tags.USER_ATTACHMENT)
    data = first_attachment.data
    assert decoded(data).size == (first_attachment.width, first_attachment.height) == (9, 9)
    assert (second_attachment.picture, second_attachment.data) == (first_attachment.picture, None)
    assert sum(data in json.dumps(record.attrs) + record.text for record in it.store.records) == 1
    past = [made(r.tag, r.text, json.loads(json.dumps(r.attrs)), r.time) for r in it.store.records]
    it.session.close()
    (project / "a.png").unlink()
    again = open_picture_session(OPENAI, past=past)
    again.ask_and_wait("what was it?")
    assert images(service.asked[-1]) == [data]


@pytest.mark.parametrize("lost", ["its record", "its data"])
def test_missing_picture_is_described_as_not_shown(
    service: Service, open_picture_session: OpenSession, lost: str
) -> None:
    service.replies = [OPENAI.reply("I see.")]
    it = open_picture_session(OPENAI)
    it.ask_and_wait("what is @a.png?")
    past = [
        record.changed(data=None) if record.tag == tags.USER_ATTACHMENT else record
        for record in it.store.records
        if lost == "its data" or record.tag != tags.USER_ATTACHMENT
    ]
    it.session.close()
    again = open_picture_session(OPENAI, past=past)
    again.ask_and_wait("what was it?")
    assert images(service.asked[-1]) == []
    assert ("not shown to you" in json.dumps(service.asked[-1])) == (lost == "its data")


def test_model_without_vision_gets_text_and_the_user_a_notice(
    service: Service, open_picture_session: OpenSession
) -> None:
    service.documents = BLIND_SERVER
    service.replies = [BLIND.reply("I see nothing.")]
    it = open_picture_session(BLIND)
    it.ask_and_wait("what is @a.png?")
    assert images(service.asked[0]) == []
    assert "[A picture that is not shown to you.]" in json.dumps(service.asked[0])
    assert len(notices(it)) == 1
    assert notices(it)[0].startswith("The model cannot see pictures")
    it.ask_and_wait("and now?")
    assert len(notices(it)) == 1
    it.session.set_model(OPENAI.spec)
    wait_for(lambda: accepts_pictures(it.session.agent.agent._nodes.llm))
    it.ask_and_wait("and you?")
    assert len(images(service.asked[-1])) == 1, "another model sees what was asked before"


def test_service_refusing_pictures_is_asked_again_without_them(
    service: Service, open_picture_session: OpenSession
) -> None:
    refusal = refusing(400, "this model does not support image input", plain=True)
    service.replies = [refusal, OLLAMA.reply("In words, then.")]
    it = open_picture_session(OLLAMA)
    it.ask_and_wait("what is @a.png?")
    assert [len(images(body)) for body in service.asked] == [1, 0]
    assert "does not support image input" in notices(it)[0]
    it.ask_and_wait("and @a.png?")
    assert [len(images(body)) for body in service.asked] == [1, 0, 0], "it is not tried again"


def test_pictures_reduce_the_space_for_text(
    service: Service, open_picture_session: OpenSession, project: Path
) -> None:
    # Ollama reads 16,384 tokens here; the answer takes a quarter, the picture 3,400.
    service.replies = [OLLAMA.reply("I see.")]
    (project / "a.png").write_bytes(encoded(Image.new("L", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))))
    open_picture_session(OLLAMA).ask_and_wait("what is @a.png? " + "word " * 10_000)
    assert len(images(service.asked[0])) == 1
    text = sum(len(message["content"]) for message in service.asked[0]["messages"])
    assert text < 3 * (12_288 - 3_300)


def test_pictures_are_sent_as_space_permits(
    service: Service, open_picture_session: OpenSession, project: Path
) -> None:
    service.replies = [OLLAMA.reply("I see.")]
    for number in range(3):
        (project / f"{number}.png").write_bytes(
            encoded(Image.new("L", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), number))
        )
    it = open_picture_session(OLLAMA)
    it.ask_and_wait("@0.png @1.png @2.png")
    assert len(images(service.asked[0])) == 1
    assert decoded(images(service.asked[0])[0]).getpixel((0, 0)) == (2, 2, 2)
    assert notices(it)[0].startswith("Not all pictures fit")


def test_unusable_pictures_are_explained(
    cells: Cells, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.session.attached_files.MAX_FILE_BYTES", 100_000)
    (project / "broken.png").write_bytes(encoded(Image.new("RGB", (300, 300), "red"))[:200])
    (project / "bomb.png").write_bytes(bomb(60_000, 60_000))
    (project / "moving.gif").write_bytes(moving("red", "blue"))
    (project / "large.bmp").write_bytes(encoded(Image.new("RGB", (300, 300)), "BMP"))
    (project / "words.png").write_text("no picture at all")
    broken, huge, gif, large, words = Attachments(cells.kernel).gather(
        "@broken.png @bomb.png @moving.gif @large.bmp @words.png", lambda: False
    )
    assert broken.problem == "The picture cannot be read: its file is damaged."
    assert "too many" in huge.problem
    assert gif.picture is not None
    assert gif.size.endswith("first frame")
    assert large.problem == "The picture's file is too large: at most 100.0 kB are read."
    assert (words.text, words.picture) == ("no picture at all", None)


def test_chips_show_dimensions_and_size_without_drawing(cells: Cells, project: Path) -> None:
    (project / "a.png").write_bytes(data := encoded(Image.new("RGB", (1_234, 56))))
    cells.run(
        f"{DRAWS}\nclass Plot:\n    def _repr_png_(self):\n        global drawn\n        drawn = True\nplot, x = Plot(), 3\n"
        "import numpy\npixels = numpy.zeros((20, 30, 3), 'uint8')"
    )
    assert Attachments(cells.kernel).chips("@a.png $im $plot $pixels $x") == [
        MentionChip("@a.png", f"1,234 × 56 px, {len(data)} B", picture=True),
        MentionChip("$im", "Image, 64 × 48 px", picture=True),
        MentionChip("$plot", "Plot, drawn when sent", picture=True),
        MentionChip("$pixels", "ndarray 20 × 30 × 3 uint8, 30 × 20 px", picture=True),
        MentionChip("$x", "int 3"),
    ]
    with pytest.raises(KernelError):
        cells.kernel.inspect("drawn")


def test_figures_are_drawn_and_undrawable_ones_become_text(cells: Cells) -> None:
    cells.run(
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\n"
        "class Broken:\n    def _repr_png_(self):\n        raise ValueError('no ink')\n    def __repr__(self):\n        return 'a plot'\nbroken = Broken()"
    )
    figure, broken = Attachments(cells.kernel).gather("$figure $broken", lambda: False)
    assert figure.picture is not None
    assert re.match(r"[\d,]+ × [\d,]+ px, ", figure.size)
    assert broken.picture is None
    assert "a plot" in broken.text
    assert "no ink" in broken.text


def test_pictures_of_a_cell_are_sent_individually(open_session: OpenSession, project: Path) -> None:
    it = open_session("I see.")
    it.run(f"{DRAWS}\ndisplay(im, im.resize((20, 10)))")
    labels = ["@cell:1 (1 of 2)", "@cell:1 (2 of 2)"]
    assert it.session.attachments.chips("@cell:1 @cell:9") == [
        *(MentionChip(label, "picture", picture=True) for label in labels),
        MentionChip("@cell:9", "it has shown no picture", missing=True),
    ]
    attachments = it.session.attachments.gather("@cell:1", lambda: False)
    assert [attachment.size.partition(" px")[0] for attachment in attachments] == [
        "64 × 48",
        "20 × 10",
    ]


def test_damaged_picture_of_a_saved_session_is_not_attached(cells: Cells) -> None:
    attachments = Attachments(cells.kernel, lambda cell: ["abcde", "AAAA"])
    assert all(attachment.problem for attachment in attachments.gather("@cell:1", lambda: False))


def test_question_includes_a_limited_number_of_pictures(cells: Cells, project: Path) -> None:
    names = [f"{number}.png" for number in range(MAX_PICTURES + 2)]
    for number, name in enumerate(names):
        (project / name).write_bytes(encoded(Image.new("L", (2, 2), number)))
    attachments = Attachments(cells.kernel).gather("@" + " @".join(names), lambda: False)
    assert [attachment.problem for attachment in attachments] == [""] * MAX_PICTURES + [
        f"at most {MAX_PICTURES} pictures go with a question"
    ] * 2


def test_picture_counts_in_cost_limit_and_estimate(
    service: Service, open_picture_session: OpenSession
) -> None:
    service.replies = [OPENAI.sending([OPENAI.words("Half")], drop=True)]
    it = open_picture_session(OPENAI)
    spending = it.session.agent.spending
    afford = spending.within_limit
    worst = []

    def recording(model: str, cost: Callable[[], float | None]) -> AbstractContextManager[None]:
        worst.append(cost() or 0.0)
        return afford(model, cost)

    spending.within_limit = recording  # type: ignore[method-assign, assignment]
    for turn, question in enumerate(("what is @a.png?", "what is not @a.png"[:11]), 1):
        it.session.submit("ask", question)
        it.store.wait(tags.USAGE, turn=turn)
        it.session.entries.hide("question 1", True)
    with_it, without = it.store.of(tags.USAGE)
    assert with_it.estimated
    assert with_it.input_tokens > without.input_tokens + 3_000
    assert worst[0] > worst[1] + 3_000 * 2e-6, "gpt-4o: 2.5 dollars for a million tokens"


# Figures that the model's code draws


@pytest.mark.thorough
def test_figures_of_a_step_go_back_scaled_and_in_words(
    service: Service, open_picture_session: OpenSession
) -> None:
    service.replies = [OPENAI.reply(PLOTS), OPENAI.reply("I see."), OPENAI.reply("Still.")]
    it = open_picture_session(OPENAI, approval="auto")
    it.ask_and_wait("plot it")
    sent = images(service.asked[1])
    assert len(sent) == 2, "the newest two of three"
    assert {max(decoded(data).size) for data in sent} == {768}
    words = json.dumps(service.asked[1]["messages"])
    assert all(f'title \\"plot {number}\\"' in words for number in range(3))
    it.ask_and_wait("and now?")
    assert images(service.asked[2]) == sent, "later questions still have them"
    it.session.entries.hide("cell 1", True)
    it.ask_and_wait("and hidden?")
    assert images(service.asked[-1]) == []


def test_the_setting_for_figures_takes_effect_at_once(
    service: Service, open_picture_session: OpenSession
) -> None:
    service.replies = [OPENAI.reply(PLOTS), OPENAI.reply("I read.")]
    it = open_picture_session(OPENAI, approval="auto")
    assert it.session.change_setting("return_pictures", False)
    it.ask_and_wait("plot it")
    assert images(service.asked[1]) == []


def test_a_small_model_says_what_it_has_drawn(
    service: Service, open_picture_session: OpenSession
) -> None:
    plot = PLOTS.replace("range(3)", "range(1)")
    service.replies = [OPENAI.reply(f"{plot[:-3]}print('1 plot')\n```"), OPENAI.reply("I drew 1.")]
    it = open_picture_session(OPENAI, approval="auto", loop="single")
    it.run("plots = [1, 2, 3]")
    it.ask_and_wait("draw the plots")
    assert len(service.asked) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("reason", ["a setting", "a model that cannot see"])
def test_figures_go_back_in_words_only(
    service: Service, open_picture_session: OpenSession, reason: str
) -> None:
    service.documents = BLIND_SERVER
    by_setting = reason == "a setting"
    protocol = OPENAI if by_setting else BLIND
    service.replies = [protocol.reply(PLOTS), protocol.reply("I read.")]
    it = open_picture_session(protocol, approval="auto", return_pictures=not by_setting)
    it.ask_and_wait("plot it")
    assert images(service.asked[1]) == []
    sent = json.dumps(service.asked[1]["messages"])
    assert 'title \\"plot 2\\"' in sent
    assert "not shown" not in sent
    assert not notices(it)
