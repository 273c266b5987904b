"""Reads what a cell asks `rlm` for. It comes from the kernel, so nothing in it is trusted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.llm.providers import pop_access
from mahtab_tui.llm.sampling import SAMPLING_OPTIONS, Sampling, validate_sampling
from mahtab_tui.session.kernel_tools import parse_tools
from mahtab_tui.worker.rlm.contexts import ContextText, NamedContext
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool

_SEARCH_ID = re.compile("[0-9a-f]{8}")


class HandedText(NamedTuple):
    """The text of a search as a cell hands it on: all that is known of it but its characters."""

    file: str
    """The path of the file in which the cell has written them. A kernel on another machine has sent
    them instead."""
    kind: str
    """What the model's code gets, as in `ContextText`."""
    parts: tuple[tuple[str, int, int], ...]
    about: str
    contexts: tuple[NamedContext, ...]

    @classmethod
    def parse(cls, args: Mapping[str, Any]) -> HandedText:
        """Read the text in the arguments of a call. Raises `KeyError`, `TypeError`, `ValueError`."""
        contexts = tuple(
            NamedContext(
                str(name), str(kind), int(start), int(end), _parse_parts(parts), str(about)
            )
            for name, kind, start, end, parts, about in args["contexts"]
        )
        return cls(
            file=str(args["file"]),
            kind=args["kind"],
            parts=_parse_parts(args["parts"]),
            about=args["about"],
            contexts=contexts,
        )

    def with_content(self, content: str) -> ContextText:
        """Return the text with its characters."""
        return ContextText(content, self.kind, self.parts, self.about, contexts=self.contexts)


class CellSearch(NamedTuple):
    """What a cell asks `rlm` for."""

    tree: str
    """Id of the search."""
    query: str
    text: HandedText | None
    """What is searched; None if the cell asks again over the text of an earlier search."""
    model: str | None
    sub_model: str | None
    instructions: str
    sampling: Sampling
    access: Mapping[str, str]
    """Address and key of the model's service, if the cell gives them."""
    limits: Mapping[str, Any]
    """The limits that `merge_limits` checks."""
    tools: Sequence[DescribedTool]
    allows_fan_outs: bool
    """Whether it may make any number of sub-calls without asking."""
    by_code: bool
    """Whether even a short text is searched by code."""
    wants_raw: bool
    """Whether the cell gets the answer's value as it is."""

    @classmethod
    def parse(cls, args: Mapping[str, Any]) -> CellSearch:
        """Read the arguments of a call.

        Raises:
            ValueError: An argument is missing or invalid; the message is a sentence.
        """
        with _reading_arguments():
            return cls._parse(args)

    @classmethod
    def _parse(cls, args: Mapping[str, Any]) -> CellSearch:
        # What remains of the options after these are limits.
        options = dict(args["options"])
        model = options.pop("model", None)
        sub_model = options.pop("sub_model", None)
        instructions = str(options.pop("instructions", ""))
        sampling = {name: options.pop(name, None) for name in SAMPLING_OPTIONS}
        access = pop_access(options)
        tree = str(args["tree"])
        if not _SEARCH_ID.fullmatch(tree):
            raise ValueError("The id of a search has eight hexadecimal digits.")
        return cls(
            tree=tree,
            query=str(args["query"]),
            text=HandedText.parse(args) if args["file"] else None,
            model=model,
            sub_model=sub_model,
            instructions=instructions,
            sampling=validate_sampling(**sampling),
            access=access,
            limits=options,
            tools=parse_tools(args["tools"] or ()),
            allows_fan_outs=bool(args["yes"]),
            by_code=args.get("by_code") is True,
            wants_raw=bool(args.get("raw")),
        )


@contextlib.contextmanager
def _reading_arguments() -> Iterator[None]:
    """Turn the errors of missing and malformed arguments into a `ValueError`."""
    try:
        yield
    except (KeyError, TypeError, AttributeError):
        raise ValueError("The arguments of rlm() cannot be read.") from None


def _parse_parts(values: Iterable[Any]) -> tuple[tuple[str, int, int], ...]:
    """Return the documents of a text: the name of each, and where it begins and ends."""
    return tuple((str(name), int(start), int(end)) for name, start, end in values)
