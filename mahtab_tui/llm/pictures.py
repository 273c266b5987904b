"""Pictures as models take them: not larger than they look at, of one format or two, and without what a file tells of its maker."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from PIL.Image import Image

SIDE = 1_568
"""Pixels of the longer side; what is larger, Claude makes as small by itself, and others smaller."""
MOST = 10
"""Pictures that go with one call; of more the newest."""
LARGEST_FILE = 50_000_000
"""Bytes of a file that is read."""
_LARGEST_SENT = 1_500_000
"""Bytes of a PNG; what would be larger becomes a JPEG, which is less sharp."""
_PIXELS = 50_000_000
"""Of a picture that is decoded."""
_MAGIC = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP|BM.{4}\0{4}", re.DOTALL)
HEAD = 16
"""Bytes by which a picture's file is known."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_QUALITIES = (90, 75, 40)
"""Of a JPEG, one after the other until it is small enough; by the last one noise is, too."""


class NoPicture(Exception):
    """It is none that can be read; the message is a sentence."""


class Picture(NamedTuple):
    """One that is ready to be sent."""

    mime: str
    data: str
    """base64."""
    width: int
    height: int
    """Pixels."""

    @property
    def id(self) -> str:
        """The same for the same picture."""
        return hashlib.sha256(self.data.encode()).hexdigest()[:16]

    @property
    def tokens(self) -> int:
        """About how many it takes, rather too many than too few: Claude counts 750 pixels as one."""
        return 100 + self.width * self.height // 750

    @property
    def bytes(self) -> int:
        """How long its file is."""
        return len(self.data) * 3 // 4


class Measures(NamedTuple):
    """What the head of a file tells."""

    width: int
    height: int
    moves: bool
    """It has more frames than the first, which alone is sent."""


def is_picture(head: bytes) -> bool:
    """Whether a file that begins so says that it is one."""
    return _MAGIC.match(head) is not None


def measured(file: IO[bytes]) -> Measures:
    """A picture's size by the head of its file; nothing is decoded. Raises `NoPicture`."""
    image = _opened(file)
    return Measures(image.width, image.height, _moves(image))


def scaled(data: bytes) -> Picture:
    """A picture's file made ready: its first frame, upright, on white, at most `SIDE` pixels long. Takes up to a second or two.

    Raises `NoPicture`.
    """
    image = _opened(io.BytesIO(data))
    try:
        image.draft("RGB", (SIDE, SIDE))  # of a JPEG, no more is decoded than is needed
        return _encoded(_on_white(image), photo=image.format == "JPEG")
    except Exception as error:  # what Pillow raises for broken files can be anything
        raise NoPicture("The picture cannot be read: its file is damaged.") from error


def sees(llm: BaseChatModel) -> bool | None:
    """Whether a model takes pictures: as it says itself, or LangChain's tables; None where nobody tells."""
    told = getattr(llm, "sees", None)
    if told is None:
        told = (getattr(llm, "profile", None) or {}).get("image_inputs")
    return told if isinstance(told, bool) else None


def pictures_in(messages: Iterable[BaseMessage]) -> int:
    """How many pictures go with messages."""
    blocks = (block for message in messages if isinstance(message.content, list) for block in message.content)
    return sum(isinstance(block, dict) and block.get("type") == "image" for block in blocks)


def _opened(file: IO[bytes]) -> Image:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its size
            image = Image.open(file, formats=_FORMATS)
    except Image.DecompressionBombError:
        raise NoPicture("The picture has too many pixels to be read.") from None
    except Exception as error:  # what Pillow raises for broken files can be anything
        raise NoPicture("The picture cannot be read: its file is damaged.") from error
    if image.width * image.height > _PIXELS:
        raise NoPicture(f"The picture has {image.width:,} × {image.height:,} pixels, which is too many to be read.")
    return image


def _moves(image: Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # it looks for the second frame, which may be broken
        return True


def _on_white(image: Image) -> Image:
    from PIL import Image as images
    from PIL import ImageOps

    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    seen_through = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    upright = ImageOps.exif_transpose(image).convert("RGBA" if seen_through else "RGB")
    upright.thumbnail((SIDE, SIDE), images.Resampling.LANCZOS)
    if not seen_through:
        return upright
    ground = images.new("RGBA", upright.size, "white")
    return images.alpha_composite(ground, upright).convert("RGB")


def _encoded(image: Image, *, photo: bool) -> Picture:
    mime, data = "image/png", b"" if photo else _file(image, "PNG")
    if photo or len(data) > _LARGEST_SENT:
        mime = "image/jpeg"
        for quality in _QUALITIES:
            data = _file(image, "JPEG", quality=quality)
            if len(data) <= _LARGEST_SENT:
                break
    return Picture(mime, base64.b64encode(data).decode(), image.width, image.height)


def _file(image: Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
