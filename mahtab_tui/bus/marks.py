"""Marks on the types of fields, which say how they are masked and written."""

from __future__ import annotations

from typing import Annotated

WORD = "word"
NAME = "name"
FLAG = "flag"
NULL = "null"
PICTURE = "picture"
"""Marks of a field's type. With `NULL`, a field is written even if it is None."""

Word = Annotated[str, WORD]
"""One of the program's own words, or an id. It is never masked, even if it equals a secret."""
Name = Annotated[str, NAME]
"""An identifier, in which only long secrets are masked."""
Flag = Annotated[bool, FLAG]
"""Written only if True."""
Data = Annotated[str, PICTURE]
"""Data of the type `mime`. The base64 data of a picture is not masked."""
