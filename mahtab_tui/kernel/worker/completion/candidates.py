"""Candidates for completion: how they are ranked, and described from what a namespace or a class
stores."""

from __future__ import annotations

import re
import time
import types
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Any, Callable, NamedTuple

from ..secret_names import summary_of
from ..statics import BOUND, SLOTS, Classes, class_dict, is_class, is_module, loaded, own_dict
from ..summary import kind_of, one_line, summary, type_name

SECONDS = 0.3
"""After this time the list has what was found so far."""

WIDTH = 100
"""Characters of the line."""

_DOCUMENTED = Classes(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
"""Types whose `__doc__` is implemented in C."""

_CHECK_EVERY = 256


class Candidate(NamedTuple):
    """A candidate for completion."""

    label: str
    """Text that is shown and matched with the typed text."""
    describe: Callable[[], tuple[str, str]]
    """Returns its kind and a line about it; called only for shown candidates."""
    text: str | None = None
    """Text that is inserted; None for the label."""
    order: int = 1
    """Sorts candidates that match equally well; the smallest comes first."""


def fixed(kind: str, doc: str = "") -> Callable[[], tuple[str, str]]:
    """Return a function that returns a fixed description."""
    return lambda: (kind, doc)


def ranked(candidates: Iterable[Candidate], stem: str, most: int) -> tuple[list[Candidate], int]:
    """Return the best matches for the typed text, and how many more there are. Equal labels come
    first, then those that start with it, then those with its letters in this order. Private names
    are listed if an underscore is typed, or nothing else matches; names with two underscores only
    if one is typed, after the others."""
    public = private = 0
    underscore = stem.startswith("_")

    def fitting() -> Iterator[tuple[tuple[Any, ...], int, Candidate]]:
        nonlocal public, private
        for key, candidate in _fitting(candidates, stem):
            if key[0] == 2 and not underscore:
                continue
            if key[0] and not underscore:
                private += 1
                if public:
                    continue
            else:
                public += 1
            yield key, public + private, candidate

    # Not sorted as a whole: ten thousand live tuples would start the garbage collector, which may
    # have a large heap to traverse.
    found = nsmallest(most, fitting())
    best = {
        candidate.label: candidate
        for key, _, candidate in reversed(found)
        if underscore or not (public and key[0])
    }
    return list(best.values())[::-1], (public or private) - len(best)


def _fitting(
    candidates: Iterable[Candidate], stem: str
) -> Iterator[tuple[tuple[Any, ...], Candidate]]:
    lower = stem.lower()
    letters = re.compile(".*?".join(map(re.escape, lower)), re.DOTALL) if len(stem) > 1 else None
    deadline = time.monotonic() + SECONDS
    for count, candidate in enumerate(candidates):
        if count % _CHECK_EVERY == 0 and time.monotonic() > deadline:
            return
        label = candidate.label
        low, spread = label.lower(), 0
        if label.startswith(stem):
            fit = 0 if label == stem else 1
        elif low.startswith(lower):
            fit = 2
        else:
            found = letters.search(low) if letters is not None else None
            if found is None:
                continue
            fit, spread = 3, found.end()
        yield (_private(label, stem), fit, spread, candidate.order, low, label), candidate


def _private(label: str, stem: str) -> int:
    underscores = 2 if label.startswith("__") else int(label.startswith("_"))
    return (
        underscores
        if not stem.startswith("_")
        else int(underscores == 2 and not stem.startswith("__"))
    )


def named(name: str, value: Any) -> Candidate:
    """Return the candidate for a name that has a value."""
    return Candidate(name, lambda: describe(name, value))


def describe(name: str, value: Any) -> tuple[str, str]:
    """Return the kind of a name's value (function, class, module, property, data) and a line about
    it."""
    if type(value) in BOUND:
        value = value.__func__
    if type(value) is property:
        return "property", doc_line(value.fget)
    if type(value) is loaded("functools", "cached_property"):
        return "property", doc_line(own_dict(value).get("func"))
    if type(value) in SLOTS:
        return "property", doc_line(value)
    kind = kind_of(value)
    if kind == "data":
        return kind, one_line(f"{type_name(value)}  {summary_of(name, value)}".rstrip(), WIDTH)
    about = summary(value) if kind == "function" else ""
    return kind, one_line(f"{about}  {doc_line(value)}".strip(), WIDTH)


def doc_of(value: Any) -> str:
    """Return the docstring if it is a plain string; no user code runs."""
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        doc = class_dict(value).get("__doc__")
    elif is_module(value):
        doc = own_dict(value).get("__doc__")
    elif type(value) in _DOCUMENTED:
        doc = value.__doc__
    else:
        doc = None
    return doc if type(doc) is str else ""


def doc_line(value: Any) -> str:
    """Return the first line of the docstring."""
    return one_line(doc_of(value).strip().split("\n", 1)[0].strip(), WIDTH)
