"""The terminal's own graphics: its replies, and pictures in both protocols."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image
from textual.events import Key

from mahtab_tui.pictures.encoding import encode_kitty, encode_sixel
from mahtab_tui.pictures.terminal_answers import TerminalAnswers
from mahtab_tui.tui.key_parser import KeyParser
from mahtab_tui.tui.pictures.graphics import kitty_draw
from mahtab_tui.tui.pictures.picture import PicturePart, SizedPicture

KITTY = "\x1b_Gi=31;OK\x1b\\"
REFUSED = "\x1b_Gi=31;ENOTSUPPORTED:no\x1b\\"
CELL = "\x1b[6;20;10t"
PLAIN = "\x1b[?62;22c"
SIXEL = "\x1b[?63;4;22c"
COLOURS = "\x1b[?1;0;256S"


class Asked(TerminalAnswers):
    def __init__(self) -> None:
        super().__init__()
        self.parser = KeyParser(take_reply=self.read)
        self.ask()

    def keys(self, *typed: str) -> list[str]:
        return [str(event) for text in typed for event in self.parser.feed(text)]


def test_replies_are_read_only_while_a_terminal_query_is_pending() -> None:
    answers = TerminalAnswers()
    assert not answers.read(KITTY)
    answers.ask()
    assert [answers.read(PLAIN), answers.read(KITTY)] == [True, False]
    assert answers.protocol is None


@pytest.mark.parametrize(
    ("replies", "protocol", "cell", "colours"),
    [
        (KITTY + CELL + COLOURS + SIXEL, "kitty", (10, 20), 256),
        (REFUSED + COLOURS + SIXEL, "sixel", None, 256),
        ("\x1b[?1;3;0S" + SIXEL, "sixel", None, 16),  # it does not tell its colours
        ("\x1b[?4;6c", None, None, 16),  # the first attribute is the terminal's type
    ],
    ids=["kitty and sixel", "sixel", "sixel, colours unknown", "none"],
)
def test_replies_name_the_protocol_and_its_values(
    replies: str, protocol: str | None, cell: tuple[int, int] | None, colours: int
) -> None:
    answers = Asked()
    assert answers.keys(replies) == []
    assert (answers.protocol, answers.cell, answers.colours) == (protocol, cell, colours)
    assert not answers.awaited


@pytest.mark.parametrize("cut", range(1, len(KITTY + CELL + PLAIN)))
def test_split_replies_between_keys_leave_the_keys(cut: int) -> None:
    answers = Asked()
    replies = KITTY + CELL + PLAIN
    keys = answers.keys("a" + replies[:cut], replies[cut:] + "b")
    assert keys == [str(Key("a", "a")), str(Key("b", "b"))]
    assert (answers.protocol, answers.cell, answers.awaited) == ("kitty", (10, 20), False)


@pytest.mark.parametrize(
    "keys", "[6~ [6;5~ [A [<0;3;4M [?2026;2$y [48;40;120;800;1200t [13;2u".split()
)
def test_other_sequences_are_read_as_before(keys: str) -> None:
    keys = f"\x1b{keys}"
    expected = list(map(str, KeyParser().feed(keys)))
    assert expected
    for cut in range(len(keys)):
        assert Asked().keys(keys[:cut], keys[cut:]) == expected


@pytest.mark.parametrize("reply", ["\x1b[6;0;0t", "\x1b[?1;0;0S", "\x1b[?1;0;999999999S"])
def test_nonsensical_numbers_do_no_harm(reply: str) -> None:
    answers = Asked()
    assert answers.keys(reply) == []
    assert answers.cell is None
    assert 2 <= answers.colours <= 256


def test_kitty_picture_is_a_png_in_chunks() -> None:
    image = Image.effect_noise((200, 100), 90).convert("RGB")
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", encode_kitty(image, 12))
    assert len(chunks) > 1
    assert chunks[0][0].startswith("a=t,f=100,i=12,")
    assert all("q=2" in keys for keys, _ in chunks)
    assert [keys[-3:] for keys, _ in chunks] == ["m=1"] * (len(chunks) - 1) + ["m=0"]
    assert all(len(data) <= 4096 for _, data in chunks)
    file = base64.b64decode("".join(data for _, data in chunks))
    assert Image.open(io.BytesIO(file)).convert("RGB").tobytes() == image.tobytes()


def test_part_of_a_kitty_picture_is_cut_to_whole_cells() -> None:
    picture = SizedPicture("key", 20, 10, lambda: Image.new("RGB", (1, 1)))
    placed = kitty_draw(12, 3, PicturePart(picture, 5, 6, top=4, rows=2), (9, 18))
    keys = "a=p i=12 p=3 x=0 y=72 w=180 h=36 c=20 r=2 C=1 q=2"
    assert set(placed[3:-2].split(",")) == set(keys.split())


def decoded(data: str) -> Image.Image:
    match = re.fullmatch(r'\x1bP0;1;0q"1;1;(\d+);(\d+)(.*)\x1b\\', data, re.DOTALL)
    assert match
    image = Image.new("RGB", (int(match[1]), int(match[2])), "magenta")
    palette: dict[int, tuple[int, ...]] = {}
    x = y = colour = 0
    for number, red, green, blue, repeated, repeated_bits, bits in re.findall(
        r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|([?-~$-])", match[3]
    ):
        if number and red:
            percent = (int(red), int(green), int(blue))
            palette[int(number)] = tuple(round(value * 2.55) for value in percent)
        elif number:
            colour = int(number)
        elif bits == "$":
            x = 0
        elif bits == "-":
            x = 0
            y = y + 6
        else:
            width = int(repeated or 1)
            for line in range(6):
                if ord(repeated_bits or bits) - 63 >> line & 1:
                    image.paste(palette[colour], (x, y + line, x + width, y + line + 1))
            x += width
    return image


@pytest.mark.parametrize("size", [(50, 40), (10, 20)])
def test_sixel_picture_matches_the_original(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, "red")
    image.paste("blue", (3, 5, 9, 17))
    image.putpixel((0, 19), (0, 255, 0))
    assert decoded(encode_sixel(image, 256)).tobytes() == image.tobytes()


@pytest.mark.thorough
def test_large_sixel_picture_has_the_colours_of_its_pixels() -> None:
    image = Image.effect_noise((700, 400), 90).convert("RGB")
    image.paste("red", (100, 100, 400, 300))
    image.putpixel((0, 0), (0, 0, 255))
    drawn = decoded(encode_sixel(image, 16))
    pixel = drawn.getpixel((200, 200))
    assert isinstance(pixel, tuple)
    assert pixel[0] > 200 > 50 > max(pixel[1:])
    assert len(drawn.getcolors() or ()) <= 16


def test_transparent_picture_has_a_white_background() -> None:
    picture = SizedPicture("", 2, 2, lambda: Image.new("RGBA", (4, 4), (0, 0, 0, 0)))
    assert picture.scaled(2, 2, Image.Resampling.LANCZOS).getpixel((0, 0)) == (255, 255, 255)
