"""Pictures as models accept them, from any file."""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from mahtab_tui.llm.pictures import (
    MAX_SIDE_PIXELS,
    PICTURE_HEAD_BYTES,
    PictureError,
    PictureSize,
    accepts_pictures,
    is_picture,
    scale_picture,
    size_from_head,
)
from tests.pictures import bomb, encoded, noise, seen

HEADS = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe0",
    b"GIF89a",
    b"RIFF\x10\0\0\0WEBPVP8 ",
    b"BM\x99\0\0\0\0\0\0\0",
)
READERS: tuple[Callable[[bytes], object], ...] = (
    scale_picture,
    lambda data: size_from_head(io.BytesIO(data)),
)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_large_picture_is_scaled_down_with_its_proportions(kind: str) -> None:
    data = encoded(Image.new("RGB", (3_136, 400), "red"), kind)
    assert is_picture(data[:PICTURE_HEAD_BYTES])
    assert size_from_head(io.BytesIO(data)) == PictureSize(3_136, 400, False)
    picture = scale_picture(data)
    assert (picture.width, picture.height) == seen(picture).size == (MAX_SIDE_PIXELS, 200)
    assert picture.mime in ("image/png", "image/jpeg")
    red, green, blue = seen(picture).convert("RGB").getpixel((700, 100))  # type: ignore[misc]
    assert red > 240 > 20 > max(green, blue)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(1_568, 1_568), (3_000, 2_500)])
def test_noise_is_not_sent_as_several_megabytes(size: tuple[int, int]) -> None:
    picture = scale_picture(encoded(noise(*size)))
    assert picture.mime == "image/jpeg"
    assert picture.bytes <= 1_500_000


def test_photo_is_sent_upright_and_without_metadata() -> None:
    photo = Image.new("RGB", (60, 40), "white")
    ImageDraw.Draw(photo).rectangle((0, 0, 59, 9), fill="black")  # at the camera's top
    about = Image.Exif()
    about[0x0112] = 6  # the camera was held on its side
    about[0x010E] = "a secret place"
    picture = scale_picture(encoded(photo, "JPEG", exif=about.tobytes()))
    image = seen(picture)
    assert image.size == (40, 60)
    grey = image.convert("L")
    assert grey.getpixel((37, 30)) == pytest.approx(0, abs=60)
    assert grey.getpixel((3, 30)) == pytest.approx(255, abs=60)
    assert "exif" not in image.info
    assert b"secret" not in base64.b64decode(picture.data)


@pytest.mark.parametrize(
    ("kind", "about"), [("JPEG", {"comment": b"a secret"}), ("PNG", {"icc_profile": b"a secret"})]
)
def test_comments_and_profiles_are_not_sent(kind: str, about: dict[str, bytes]) -> None:
    picture = scale_picture(encoded(Image.new("RGB", (60, 40), "white"), kind, **about))
    info = seen(picture).info
    assert (info.get("comment"), info.get("icc_profile")) == (None, None)


def test_transparent_parts_become_white() -> None:
    image = Image.new("RGBA", (20, 20))
    image.putpixel((5, 5), (0, 0, 0, 255))
    pixels = seen(scale_picture(encoded(image)))
    assert (pixels.getpixel((0, 0)), pixels.getpixel((5, 5))) == ((255, 255, 255), (0, 0, 0))


def test_sixteen_bit_grey_is_not_all_white() -> None:
    picture = scale_picture(encoded(Image.new("I;16", (9, 9), 0x4000)))
    assert seen(picture).getpixel((3, 3)) == (64, 64, 64)


@pytest.mark.parametrize(("width", "height"), [(60_000, 60_000), (10_000, 10_000), (2**31 - 1, 1)])
def test_decompression_bomb_is_refused_unread(width: int, height: int) -> None:
    for read in READERS:
        with pytest.raises(PictureError, match=r"too many|damaged"):
            read(bomb(width, height))


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_truncated_picture_is_reported_as_damaged(kind: str, fraction: float) -> None:
    picture = encoded(noise(50, 50), kind)
    with pytest.raises(PictureError, match="damaged"):
        scale_picture(picture[: int(fraction * len(picture))])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HEADS), st.binary(max_size=300))
@example(HEADS[2], b"\xff\xff\xff\xff")
def test_any_file_gives_a_picture_or_one_sentence(head: bytes, body: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(PictureError):
            read(head + body)


@pytest.mark.parametrize("text", [b"", b"BMW is a car", b"GIF", b"<svg/>", b"import os"])
def test_text_is_not_a_picture(text: bytes) -> None:
    assert not is_picture(text)


def test_equal_pictures_have_one_name() -> None:
    sizes = ((9, 9), (9, 9), (9, 8))
    first_id, equal_id, other_id = (
        scale_picture(encoded(Image.new("L", size))).id for size in sizes
    )
    assert first_id == equal_id != other_id


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("anthropic:claude-sonnet-4-5", True),
        ("anthropic:claude-of-tomorrow", True),
        ("openai:gpt-4o", True),
        ("ollama:llava", None),
        ("claude", True),
        ("demo", False),
    ],
)
def test_models_with_vision_are_known(
    spec: str, expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mahtab_tui.llm.providers import get_llm

    for provider in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "no-secret")
    assert accepts_pictures(get_llm(spec)) is expected
