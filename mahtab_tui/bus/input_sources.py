"""Finds from which inputs of a cell its variables are computed, for `staleness`.

A cell that calls a function also uses what the function's code reads, so the search follows calls. If it
leads to more than `MAX_SOURCES` inputs, the answer is none: so many would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from mahtab_tui.bus.code_flow import MAX_SOURCES, Definition


class SourceFinder:
    """Finds the inputs of a cell from which variables are computed, also through called functions.

    Args:
        definition_of: Returns the code of a function, class or instance; None for others.
        input_names: The names of the cell's inputs.
    """

    def __init__(
        self, definition_of: Callable[[str], Definition | None], input_names: Set[str]
    ) -> None:
        self._definition_of = definition_of
        self._input_names = input_names
        self._inputs_by_call: dict[str, frozenset[str] | None] = {}
        """What each input leads to, which includes the input itself; None if it is too much."""
        self._inputs_by_names: dict[frozenset[str], frozenset[str]] = {}
        """The inputs to which names lead. Equal sets are one object, to save memory."""

    def find(self, read_names: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
        """Return the inputs from which variables are computed, by the names of the variables.

        Args:
            read_names: Names that the code of the cell shows, by the names of the variables.
        """
        return {name: self._find_inputs(frozenset(names)) for name, names in read_names.items()}

    def _find_inputs(self, read_names: frozenset[str]) -> frozenset[str]:
        """Return the inputs to which names lead; none if they are too many."""
        inputs = self._inputs_by_names.get(read_names)
        if inputs is None:
            inputs = self._unite_called(read_names & self._input_names)
            # Other names may lead to the same inputs.
            inputs = self._inputs_by_names.setdefault(inputs, inputs)
            self._inputs_by_names[read_names] = inputs
        return inputs

    def _unite_called(self, names: Set[str]) -> frozenset[str]:
        """Return all inputs to which inputs lead; none if they are too many."""
        inputs: set[str] = set()
        for name in names:
            if name not in self._inputs_by_call:
                self._inputs_by_call[name] = self._follow(name)
            called_inputs = self._inputs_by_call[name]
            if called_inputs is None:
                return frozenset()
            inputs |= called_inputs
            if len(inputs) > MAX_SOURCES:
                return frozenset()
        return frozenset(inputs)

    def _follow(self, name: str) -> frozenset[str] | None:
        """Return the inputs to which an input leads through code; None if they are too many."""
        inputs = {name}
        pending_names = [name]
        while pending_names:
            definition = self._definition_of(pending_names.pop())
            if definition is None:
                continue
            new_names = (definition.names & self._input_names) - inputs
            inputs |= new_names
            if len(inputs) > MAX_SOURCES:
                return None
            pending_names += new_names
        return frozenset(inputs)


def unite_known(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the inputs of all sets; none if they are too many."""
    inputs = frozenset().union(*sets)
    return inputs if len(inputs) <= MAX_SOURCES else frozenset()
