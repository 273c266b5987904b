"""Prepares pictures for models: scaled, as PNG or JPEG, and without the file's metadata."""

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

MAX_SIDE_PIXELS = 1_568
"""Pixels of the longer side; Claude scales larger pictures down to this, other models to less."""
MAX_PICTURES = 10
"""Pictures in one call: the newest."""
MAX_FILE_BYTES = 50_000_000
_MAX_PNG_BYTES = 1_500_000
"""A larger PNG is sent as a JPEG, which is less sharp."""
_MAX_PIXELS = 50_000_000
_MAGIC = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP|BM.{4}\0{4}", re.DOTALL
)
PICTURE_HEAD_BYTES = 16
"""Beginning of a file that shows whether it is a picture."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_QUALITIES = (90, 75, 40)
"""Tried for a JPEG until it is small enough; with the last, even noise is."""


class PictureError(Exception):
    """The picture cannot be read; the message is a sentence."""


class EncodedPicture(NamedTuple):
    """A picture as it is sent."""

    mime: str
    data: str
    """base64."""
    width: int
    height: int

    @property
    def id(self) -> str:
        return hashlib.sha256(self.data.encode()).hexdigest()[:16]

    @property
    def tokens(self) -> int:
        """An estimate, rather too high than too low: Claude counts a token for 750 pixels."""
        return 100 + self.width * self.height // 750

    @property
    def bytes(self) -> int:
        return len(self.data) * 3 // 4


class PictureSize(NamedTuple):
    width: int
    height: int
    moves: bool
    """Whether it has several frames; only the first one is sent."""


def is_picture(head: bytes) -> bool:
    return _MAGIC.match(head) is not None


def size_from_head(file: IO[bytes]) -> PictureSize:
    """Read a picture's size without decoding it. Raises `PictureError`."""
    image = _open_image(file)
    return PictureSize(image.width, image.height, _is_animated(image))


def scale_picture(data: bytes, side: int = MAX_SIDE_PIXELS) -> EncodedPicture:
    """Prepare a picture for a model: its first frame, upright, on white.

    Args:
        data: The file.
        side: The most pixels of its longer side.

    Raises:
        PictureError: It is damaged, or has too many pixels.
    """
    image = _open_image(io.BytesIO(data))
    try:
        image.draft("RGB", (side, side))  # decode a JPEG only as far as needed
        return _encode(_on_white(image, side), photo=image.format == "JPEG")
    except Exception as error:  # Pillow may raise anything for broken files
        raise PictureError("The picture cannot be read: its file is damaged.") from error


def accepts_pictures(llm: BaseChatModel) -> bool | None:
    """Return whether a model accepts pictures, by its own attribute or LangChain's tables.

    None if unknown.
    """
    sees = getattr(llm, "sees", None)
    if sees is None:
        profile = getattr(llm, "profile", None) or {}
        sees = profile.get("image_inputs")
    return sees if isinstance(sees, bool) else None


def count_pictures(messages: Iterable[BaseMessage]) -> int:
    contents = (message.content for message in messages if isinstance(message.content, list))
    blocks = (block for content in contents for block in content)
    return sum(isinstance(block, dict) and block.get("type") == "image" for block in blocks)


def _open_image(file: IO[bytes]) -> Image:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its size
            image = Image.open(file, formats=_FORMATS)
    except Image.DecompressionBombError:
        raise PictureError("The picture has too many pixels to be read.") from None
    except Exception as error:  # Pillow may raise anything for broken files
        raise PictureError("The picture cannot be read: its file is damaged.") from error
    if image.width * image.height > _MAX_PIXELS:
        raise PictureError(
            f"The picture has {image.width:,} × {image.height:,} pixels, which is too many."
        )
    return image


def _is_animated(image: Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # Pillow reads the second frame, which may be broken
        return True


def _on_white(image: Image, side: int) -> Image:
    from PIL import Image as images
    from PIL import ImageOps

    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    is_transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    upright = ImageOps.exif_transpose(image).convert("RGBA" if is_transparent else "RGB")
    upright.thumbnail((side, side), images.Resampling.LANCZOS)
    if not is_transparent:
        return upright
    background = images.new("RGBA", upright.size, "white")
    return images.alpha_composite(background, upright).convert("RGB")


def _encode(image: Image, *, photo: bool) -> EncodedPicture:
    """Encode a picture as PNG, or as JPEG if it is a photo or would be too large."""
    image.info.clear()  # comments and profiles, which Pillow would write again
    mime = "image/png"
    data = b"" if photo else _save(image, "PNG")
    if photo or len(data) > _MAX_PNG_BYTES:
        mime = "image/jpeg"
        for quality in _QUALITIES:
            data = _save(image, "JPEG", quality=quality)
            if len(data) <= _MAX_PNG_BYTES:
                break
    return EncodedPicture(mime, base64.b64encode(data).decode(), image.width, image.height)


def _save(image: Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
