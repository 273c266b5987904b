"""Knows which results no longer hold: those of cells that have used variables that are different now.

`code_inputs` says which variables a cell uses; the kernel's records (`Namespace`) say which ones each
cell has made or changed. A cell is stale while one of its inputs is another value than when it ran.
`stale_results` marks the entries of a conversation, and `session.stale_outputs` tells the model.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from mahtab_tui.bus.code_flow import MAX_SOURCES, Definition, Origin
from mahtab_tui.bus.code_inputs import CodeInputs, find_inputs, instance_of
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.values import Change

_MAX_NAMED = 3
"""Inputs that a sentence names; more are counted."""
_UNCERTAIN = ("perhaps", "restoring")
"""Kinds of changes after which a variable may be as before."""
_ANEW = ("added", "rebound")
"""Kinds of changes that make a variable anew."""
_GONE = ("deleted", "absent")
"""Kinds of changes after which a variable does not exist."""
_NO_CELL = sys.maxsize
"""A number after those of all cells."""


class VariableVersion(NamedTuple):
    """A variable as a cell has made it."""

    name: str
    maker: int
    """The cell; 0 if none has made it."""


class StaleInput(NamedTuple):
    """A variable that a cell has used, and that has been different since."""

    name: str
    made_by: int
    """The cell that had made it as it was used; 0 if none had."""
    changed_by: int | None
    """The cell that has changed or deleted it since, the first one if several have; None if only an
    undo or a new kernel has."""
    now_made_by: int | None
    """The cell that had made it as it was after that; None if it was gone."""

    @property
    def version(self) -> VariableVersion:
        """The variable as it was used."""
        return VariableVersion(self.name, self.made_by)

    def __str__(self) -> str:
        used = f"`{self.name}`"
        if self.made_by:
            used += f" from In {self.made_by}"
        if self.changed_by is not None:
            verb = "deleted" if self.now_made_by is None else "changed"
            return f"{used}, {verb} by In {self.changed_by}"
        if self.now_made_by:
            return f"{used}, now that from In {self.now_made_by}"
        if self.now_made_by is None:
            return f"{used}, which is gone"
        return f"{used}, which is now a different object"


def describe_stale(inputs: Sequence[StaleInput], verb: str = "uses") -> str:
    """Say which inputs of a cell have changed: ``uses `df` from In 4, changed by In 9``."""
    text = f"{verb} {'; '.join(map(str, inputs[:_MAX_NAMED]))}"
    omitted_count = len(inputs) - _MAX_NAMED
    return f"{text}; and {omitted_count:,} more" if omitted_count > 0 else text


def describe_origin(maker: int, stale_cell: int) -> str:
    """Say that a variable comes from a stale cell: ``from In 4 (stale)`` if that has made it, else
    ``rests on In 4 (stale)``."""
    verb = "from" if maker == stale_cell else "rests on"
    return f"{verb} In {stale_cell} (stale)"


@dataclass
class _CellUse:
    """What a cell has used, and which of that it has changed."""

    code: str
    made_by: Mapping[str, int]
    """The cells that had made the inputs, by name."""
    values: Mapping[str, int]
    """The cells that had first made the values that the inputs had, by name."""
    sources: dict[str, frozenset[str]]
    """The inputs from which the variables that the cell binds or changes are computed, by their
    names."""
    call_targets: Set[str]
    """Names that the cell's calls may have changed, as far as its code shows."""
    mention_sources: Mapping[str, frozenset[str]]
    """The inputs in statements that mention a variable, by its name."""
    reused_names: Set[str]
    """Names that the cell has read after it had bound them, if it may have printed something."""
    changed_inputs: set[str] = field(default_factory=set)
    """Inputs that the cell has changed or deleted itself."""
    stale: dict[str, StaleInput] = field(default_factory=dict)
    """How inputs are different now, by name."""
    last_run: int | None = None
    """The last cell before it with the same code."""
    next_run: int | None = None
    """The next cell with the same code."""

    def sources_of(self, name: str) -> frozenset[str]:
        """Return the inputs from which the cell has computed a variable, as far as its code shows."""
        sources = self.sources.get(name)
        return self.mention_sources.get(name, frozenset()) if sources is None else sources


class _State(NamedTuple):
    """A variable as it is at one time."""

    value: int | None
    """The cell that has first made a value that is equal to its value, 0 if none has; None if it
    does not exist."""
    first_maker: int
    """The cell that had made it anew, from which that value and all changes since have come;
    `_NO_CELL` if it does not exist."""


class _Step(NamedTuple):
    """The part of a cell that computes variables from the same inputs."""

    maker: int
    """The cell."""
    sources: frozenset[str]
    """The inputs."""


@dataclass
class _Users:
    """The cells that have used a variable, so that a change need not review all of them."""

    by_value: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """All of them, by the cell that had first made the value that they used."""
    changers: list[int] = field(default_factory=list)
    """The cells that have changed or deleted it themselves, in ascending order."""
    latest_changer: int | None = None
    """The user that has changed it last. The next change shows whether it is stale."""
    stale_by_undo: set[int] = field(default_factory=set)
    """The stale cells since which no cell has changed it, only an undo or a new kernel."""

    def add_changer(self, cell: int) -> None:
        """Note that a user has changed the variable itself."""
        insort(self.changers, cell)

    def remove(self, cell: int, value: int) -> None:
        """Forget a user; `value` is the cell that had first made the value that it used."""
        self.by_value[value].discard(cell)
        self.stale_by_undo.discard(cell)
        if cell in self.changers:
            self.changers.remove(cell)
        if self.latest_changer == cell:
            self.latest_changer = None

    def all_cells(self) -> set[int]:
        """Return all users."""
        return set().union(*self.by_value.values())

    def affected_cells(self, before: _State, now: _State) -> set[int]:
        """Return the users that a cell's change of the variable may make stale, or no longer stale, or
        stale for another reason."""
        start = bisect_left(self.changers, min(before.first_maker, now.first_maker))
        end = bisect_left(self.changers, max(before.first_maker, now.first_maker))
        cells = self.stale_by_undo.union(self.changers[start:end])
        for value in (before.value, now.value):
            if value is not None:
                cells |= self.by_value.get(value, set())
        if self.latest_changer is not None:
            cells.add(self.latest_changer)
        return cells


class _SourceFinder:
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
        """What each input leads to, itself among it; None if that is too much to be known."""
        self._inputs_by_names: dict[frozenset[str], frozenset[str]] = {}
        """The inputs by the names that are read, one object for equal ones."""

    def find(self, read_names: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
        """Return the inputs from which variables are computed, by the names of the variables.

        Args:
            read_names: Names that the code of the cell shows, by the names of the variables.
        """
        return {name: self._find_inputs(frozenset(names)) for name, names in read_names.items()}

    def _find_inputs(self, read_names: frozenset[str]) -> frozenset[str]:
        """Return the inputs to which names lead; none if they are too many to be known."""
        inputs = self._inputs_by_names.get(read_names)
        if inputs is None:
            inputs = self._unite_called(read_names & self._input_names)
            # Other names may lead to the same inputs.
            inputs = self._inputs_by_names.setdefault(inputs, inputs)
            self._inputs_by_names[read_names] = inputs
        return inputs

    def _unite_called(self, names: Set[str]) -> frozenset[str]:
        """Return all inputs to which inputs lead; none if they are too many to be known."""
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
        """Return the inputs to which an input leads; None if they are too many to be known."""
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


class Staleness:
    """Follows variables through the cells of a session.

    A value is known by the first cell that has made it: to make it again, as far as the kernel can
    compare values, changes nothing. A cell that has changed its own input is stale only once that
    variable was made anew without it.
    """

    def __init__(self) -> None:
        self._makers: dict[str, int] = {}
        """The cell that has changed each variable last; 0 if none has."""
        self._last_makers: dict[str, int] = {}
        """The cell that has changed each variable last, also of earlier kernels."""
        self._deleters: dict[str, int] = {}
        """The cell that has deleted each variable last, in this kernel."""
        self._first_makers: dict[tuple[str, int], int] = {}
        """The cell that had made a variable anew before another cell changed it, by the variable
        and the cell that changed it. Left out if both are the same cell."""
        self._equal_before: dict[tuple[str, int], int] = {}
        """The cell that had made a variable before another cell made it again with an equal value, by
        the variable and that cell."""
        self._names_made_equal: defaultdict[int, list[str]] = defaultdict(list)
        """The variables that a cell has made again with an equal value."""
        self._first_equal: dict[tuple[str, int], int] = {}
        """The cell that had first made a value, by the variable and a later cell that made an equal
        one."""
        self._numbered_values: dict[tuple[str, int], int] = {}
        """The cells that have first made values, by the variable and the value's number."""
        self._definitions: dict[tuple[str, int], Definition] = {}
        """Functions, classes and instances by name and the cell that has made them."""
        self._uses: dict[int, _CellUse] = {}
        self._users: defaultdict[str, _Users] = defaultdict(_Users)
        """The users of each variable."""
        self._latest_run: dict[str, int] = {}
        """The cell that ran each code last."""
        self.undone_cells: set[int] = set()

    def inputs_of(self, cell: int) -> tuple[StaleInput, ...]:
        """Return the inputs of a cell that are different now."""
        use = self._uses.get(cell)
        return () if use is None else tuple(use.stale.values())

    def stale_variables(self) -> dict[str, tuple[int, int]]:
        """Return the variables that were computed from values that are different now.

        Returns:
            By the name of the variable: the cell that made it, and the cell that used such a value
            for it, or for what it was computed from.
        """
        current_versions = [VariableVersion(*item) for item in self._makers.items()]
        step_of_version, users_of_version = self._steps_to(current_versions)
        versions_of_step: defaultdict[_Step, list[VariableVersion]] = defaultdict(list)
        for version, step in step_of_version.items():
            versions_of_step[step].append(version)

        stale_makers: dict[_Step, int] = {}
        for step in versions_of_step:
            if self._uses_replaced_value(step):
                stale_makers[step] = step.maker
        pending = deque(stale_makers)
        while pending:
            step = pending.popleft()
            for version in versions_of_step[step]:
                for user in users_of_version[version]:
                    if user not in stale_makers:
                        stale_makers[user] = stale_makers[step]
                        pending.append(user)
        return {
            version.name: (version.maker, stale_makers[step_of_version[version]])
            for version in current_versions
            if step_of_version[version] in stale_makers
        }

    def _steps_to(
        self, versions: Iterable[VariableVersion]
    ) -> tuple[dict[VariableVersion, _Step], dict[VariableVersion, list[_Step]]]:
        """Return the steps that made variables.

        Returns:
            By each of these versions of variables, and by those from which they were computed: the
            step that made it, and the steps that were computed from it.
        """
        step_of_version: dict[VariableVersion, _Step] = {}
        users_of_version: dict[VariableVersion, list[_Step]] = {}
        followed_steps: set[_Step] = set()
        pending = list(versions)
        while pending:
            version = pending.pop()
            if version in step_of_version:
                continue
            step = self._step_of(version)
            step_of_version[version] = step
            users_of_version.setdefault(version, [])
            # A cell may compute very many variables from the same ones.
            if step not in followed_steps:
                followed_steps.add(step)
                for source in self._source_versions(step):
                    users_of_version.setdefault(source, []).append(step)
                    pending.append(source)
        return step_of_version, users_of_version

    def _step_of(self, version: VariableVersion) -> _Step:
        """Return the step of a cell that made a variable."""
        use = self._uses.get(version.maker)
        return _Step(version.maker, frozenset() if use is None else use.sources_of(version.name))

    def _uses_replaced_value(self, step: _Step) -> bool:
        """Return whether variables were computed from a value that another one has replaced since."""
        use = self._uses.get(step.maker)
        if use is None or not use.stale:
            return False
        # What was deleted may have been no longer needed.
        return any(name in use.stale and name in self._makers for name in step.sources)

    def _source_versions(self, step: _Step) -> list[VariableVersion]:
        """Return the variables from which others were computed, as far as they are not replaced."""
        use = self._uses.get(step.maker)
        if use is None:
            return []
        versions: list[VariableVersion] = []
        for name in sorted(step.sources):
            maker = use.made_by[name]
            # A later cell may have made an equal value, from other variables.
            if name not in use.changed_inputs:
                maker = self._makers.get(name, maker)
            versions.append(VariableVersion(name, maker))
        return versions

    def cells_resting_on(self, stale_cells: Iterable[int]) -> dict[int, int]:
        """Return the cells that use what stale cells have made, or what such cells have made, each
        with a stale cell; also the stale cells, each with itself."""
        origins = {cell: cell for cell in stale_cells}
        for cell, use in sorted(self._uses.items()):
            makers = [maker for maker in use.made_by.values() if maker in origins]
            if makers and cell not in self.undone_cells:
                origins.setdefault(cell, origins[makers[0]])
        return origins

    def reuses_own(self, cell: int, name: str) -> bool:
        """Return whether a cell that was not undone, and has not run again, has read a variable
        after it had made it, and may have printed something."""
        use = self._uses.get(cell)
        if use is None or cell in self.undone_cells or self.rerun_of(cell) is not None:
            return False
        return name in use.reused_names

    def code_of(self, cell: int) -> str:
        """Return the code of a cell that has run."""
        return self._uses[cell].code

    def rerun_of(self, cell: int) -> int | None:
        """Return the next cell that has run the same code and was not undone.

        None if there is none.
        """
        use = self._uses.get(cell)
        next_run = None if use is None else use.next_run
        while next_run is not None and next_run in self.undone_cells:
            next_run = self._uses[next_run].next_run
        return next_run

    def outdated_cells(self, failed_cells: Container[int]) -> list[int]:
        """Return the cells that a rerun would bring up to date, in order: stale ones, and those
        that use what these have made.

        Args:
            failed_cells: Cells that are not to run again.
        """
        outdated_cells: set[int] = set()
        for cell, use in sorted(self._uses.items()):
            rests_on_outdated = not outdated_cells.isdisjoint(use.made_by.values())
            if not use.stale and not rests_on_outdated:
                continue
            is_excluded = cell in self.undone_cells or cell in failed_cells
            if not is_excluded and self.rerun_of(cell) is None:
                outdated_cells.add(cell)
        return sorted(outdated_cells)

    def start(self, cell: int, code: str) -> set[int]:
        """Note what a cell that starts will use.

        Return the cells that are run again by it, if they are stale.
        """
        self._forget(cell)
        inputs = find_inputs(code)
        names = self._with_called(inputs.names)
        made_by = {name: self._makers[name] for name in names if name in self._makers}
        values = {name: self._value_of(name, maker) for name, maker in made_by.items()}
        finder = _SourceFinder(self._definition, made_by.keys())
        use = _CellUse(
            code,
            made_by,
            values,
            finder.find(_with_call_sources(inputs)),
            inputs.call_sources.keys(),
            finder.find(inputs.mention_sources),
            inputs.reused_names,
        )
        self._uses[cell] = use
        for name, value in values.items():
            self._users[name].by_value[value].add(cell)
        for name, definition in inputs.definitions.items():
            self._definitions[name, cell] = definition
        for name, origin in inputs.origins.items():
            definition_of_origin = self._resolve(origin)
            if definition_of_origin is not None:
                self._definitions[name, cell] = definition_of_origin

        last_run = self._latest_run.get(code)
        self._latest_run[code] = cell
        # The numbers of a damaged session may not increase.
        if last_run is None or last_run >= cell:
            return set()
        use.last_run = last_run
        self._uses[last_run].next_run = cell
        return self._stale_runs_before([cell])

    def undo(self, cells: Iterable[int], *, undone: bool) -> set[int]:
        """Note that cells were undone, or redone.

        Variables change by records of their own, except those that the cells had made again with
        equal values.

        Returns:
            The cells whose staleness, or its description, may have changed.
        """
        if undone:
            self.undone_cells.update(cells)
        else:
            self.undone_cells.difference_update(cells)
        return self._stale_runs_before(cells) | self._restore_equal(sorted(cells), undone=undone)

    def _restore_equal(self, cells: Sequence[int], *, undone: bool) -> set[int]:
        """Note which cells variables are from after an undo or a redo that has not changed them, because
        the cells had made them again with equal values. Return the cells whose staleness has changed."""
        makers: dict[str, int | None] = {}
        for cell in reversed(cells) if undone else cells:
            for name in self._names_made_equal.get(cell, ()):
                maker_before = self._equal_before[name, cell]
                if undone:
                    old_maker = cell
                    new_maker = maker_before
                else:
                    old_maker = maker_before
                    new_maker = cell
                if makers.get(name, self._makers.get(name)) == old_maker:
                    makers[name] = new_maker
        return self._set_makers(makers)

    def _stale_runs_before(self, cells: Iterable[int]) -> set[int]:
        """Return the stale cells whose rerun may have become another, because some of the cells
        started, were undone or redone."""
        runs_before: set[int] = set()
        for cell in cells:
            use = self._uses.get(cell)
            while use is not None and use.last_run is not None and use.last_run not in runs_before:
                runs_before.add(use.last_run)
                # The reruns of those before it are the same as before, unless it was undone.
                is_passed = use.last_run in self.undone_cells
                use = self._uses[use.last_run] if is_passed else None
        return {run for run in runs_before if self._uses[run].stale}

    def _forget(self, cell: int) -> None:
        """Forget an earlier cell of the same number, which a damaged session may have."""
        use = self._uses.pop(cell, None)
        if use is None:
            return
        for name, value in use.values.items():
            self._users[name].remove(cell, value)
        if self._latest_run.get(use.code) == cell:
            del self._latest_run[use.code]
        if use.last_run is not None:
            self._uses[use.last_run].next_run = None
        if use.next_run is not None:
            self._uses[use.next_run].last_run = None
        self.undone_cells.discard(cell)
        self._names_made_equal.pop(cell, None)

    def _with_called(self, read_names: Iterable[str]) -> set[str]:
        """Return names with those that the functions among them read."""
        names: set[str] = set()
        pending_names = set(read_names)
        while pending_names:
            name = pending_names.pop()
            if name not in names:
                names.add(name)
                definition = self._definition(name)
                if definition is not None:
                    pending_names |= definition.names
        return names

    def _definition(self, name: str) -> Definition | None:
        """Return the code of a function, class or instance as it is now."""
        return self._definitions.get((name, self._makers.get(name, -1)))

    def _resolve(self, origin: Origin) -> Definition | None:
        """Return the code that a variable got from another one, which is as before the cell."""
        definition = self._definition(origin.name)
        if definition is None or not origin.is_called:
            return definition
        return instance_of(origin.name, definition) if definition.is_class else None

    def fold(self, record: Namespace) -> set[int]:
        """Note changes of variables. Return the cells whose staleness has changed."""
        if record.fresh:
            return self._restart(record.changes)
        if record.restored or not record.cell:
            return self._restore(record.cell or 0, record.changes)
        return self._change(record.cell, record.changes)

    def _change(self, cell: int, changes: Sequence[Change]) -> set[int]:
        """Note what a cell has changed."""
        self._note_hidden_changes(cell, changes)
        changed_cells: set[int] = set()
        for change in changes:
            name = change.name
            kind = change.change
            if kind in _UNCERTAIN:
                continue
            if name in self._users:
                changed_cells |= self._change_used(cell, change)
            elif kind in _ANEW:
                # A cell may make very many variables, of which most are never used.
                self._note_made(change, cell)
            else:
                self._set_maker(change, cell)
        return changed_cells

    def _note_hidden_changes(self, cell: int, changes: Sequence[Change]) -> None:
        """Note from what a cell has computed variables that its code does not show as changed: by a
        function that it calls, or under another name of the same object."""
        use = self._uses.get(cell)
        if use is None:
            return
        hidden_names = {change.name for change in changes} - use.sources.keys()
        if not hidden_names:
            return
        for name, sources in self._sources_in_functions(use, hidden_names).items():
            if sources:
                use.sources[name] = _unite_known([sources, use.sources_of(name)])

        names_in_place = {change.name for change in changes if change.change == "changed"}
        shown_names = names_in_place & use.sources.keys()
        other_name_sources = _unite_known(use.sources[name] for name in shown_names)
        for name in names_in_place - shown_names - use.call_targets:
            use.sources[name] = _unite_known([other_name_sources, use.sources_of(name)])

    def _sources_in_functions(
        self, use: _CellUse, hidden_names: Set[str]
    ) -> dict[str, frozenset[str]]:
        """Return the inputs from which the functions of earlier cells may compute variables.

        Args:
            use: The cell that mentions the functions.
            hidden_names: The names of the variables.

        Returns:
            The inputs by the names of the variables, without those that the functions do not name.
        """
        functions_by_sources: defaultdict[frozenset[str], set[str]] = defaultdict(set)
        for function, sources in use.mention_sources.items():
            is_input = function in use.made_by
            if sources and is_input and self._definition(function) is not None:
                functions_by_sources[sources].add(function)

        sources_by_name: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for sources, functions in functions_by_sources.items():
            names = self._names_in_functions(functions) - functions
            for name in names & hidden_names:
                sources_by_name[name].append(sources)
        return {name: _unite_known(sources) for name, sources in sources_by_name.items()}

    def _names_in_functions(self, functions: Iterable[str]) -> set[str]:
        """Return the names that functions read or may bind, also by the functions that they call."""
        names = self._with_called(functions)
        definitions = [self._definition(name) for name in names]
        return names.union(*(item.global_names for item in definitions if item is not None))

    def _change_used(self, cell: int, change: Change) -> set[int]:
        """Note that a cell has changed a variable that cells have used.

        Return the cells whose staleness has changed.
        """
        name = change.name
        before = self._state(name)
        use = self._uses.get(cell)
        is_input = use is not None and name in use.made_by
        self._set_maker(change, cell)
        is_gone = change.change in _GONE
        is_equal = not is_gone and self._value_of(name, cell) == before.value
        if is_equal or (is_input and before.value is not None and not is_gone):
            self._first_makers[name, cell] = before.first_maker
        if use is not None and is_input and name not in use.changed_inputs:
            use.changed_inputs.add(name)
            self._users[name].add_changer(cell)
        changed_cells = self._review(name, before, cell)
        if is_input:
            self._users[name].latest_changer = cell
        return changed_cells

    def _set_maker(self, change: Change, cell: int) -> None:
        """Note which cell a variable is from after its change."""
        name = change.name
        if change.change in _GONE:
            self._makers.pop(name, None)
            self._deleters[name] = cell
            return
        if change.change == "changed" and name in self._makers:
            self._keep_definition(name, self._makers[name], cell)
        self._note_made(change, cell)

    def _note_made(self, change: Change, cell: int) -> None:
        """Note that a cell has made or changed a variable."""
        name = change.name
        maker_before = self._makers.get(name, cell)
        self._note_maker(name, cell)
        self._note_value(change, cell)
        is_equal = self._value_of(name, maker_before) == self._value_of(name, cell)
        if is_equal and maker_before != cell:
            self._equal_before[name, cell] = maker_before
            self._names_made_equal[cell].append(name)

    def _note_value(self, change: Change, cell: int) -> None:
        """Note which cell has first made the value that a variable has after its change."""
        self._first_equal.pop((change.name, cell), None)
        if change.value_number is None:
            return
        key = (change.name, change.value_number)
        first_maker = self._numbered_values.setdefault(key, cell)
        if first_maker != cell:
            self._first_equal[change.name, cell] = first_maker

    def _value_of(self, name: str, maker: int) -> int:
        """Return the cell that has first made the value that a cell gave a variable."""
        return self._first_equal.get((name, maker), maker)

    def _keep_definition(self, name: str, maker_before: int, cell: int) -> None:
        """Note that a variable has the same code after a cell has changed it in place."""
        definition = self._definitions.get((name, maker_before))
        if definition is not None:
            self._definitions.setdefault((name, cell), definition)

    def _restore(self, cell: int, changes: Iterable[Change]) -> set[int]:
        """Note that variables are again as a cell had made them, or are to be so soon.

        Args:
            cell: The cell; 0 if none had made them.
            changes: The variables.

        Returns:
            The cells whose staleness has changed.
        """
        makers: dict[str, int | None] = {}
        for change in changes:
            if change.change in _GONE:
                makers[change.name] = None
            elif change.change == "restoring":
                makers[change.name] = self._last_makers.get(change.name, cell)
            else:
                makers[change.name] = cell
                if change.value_number is not None:
                    key = (change.name, change.value_number)
                    self._numbered_values.setdefault(key, self._value_of(change.name, cell))
        return self._set_makers(makers)

    def _restart(self, changes: Iterable[Change]) -> set[int]:
        """Note that a new kernel has only these variables, which no cell has made."""
        self._deleters.clear()
        makers: dict[str, int | None] = dict.fromkeys(self._makers)
        makers |= {change.name: 0 for change in changes}
        return self._set_makers(makers)

    def _set_makers(self, makers: Mapping[str, int | None]) -> set[int]:
        """Note that variables are as cells had made them, for an undo or in a new kernel.

        Args:
            makers: The cell by variable; 0 if no cell had made it, None if it is gone.
        """
        changed_cells: set[int] = set()
        for name, maker in makers.items():
            is_used = name in self._users
            state_before = self._state(name) if is_used else None
            if maker is None:
                self._makers.pop(name, None)
            else:
                self._note_maker(name, maker)
            if state_before is not None:
                changed_cells |= self._review(name, state_before, None)
        return changed_cells

    def _note_maker(self, name: str, maker: int) -> None:
        self._makers[name] = maker
        if maker:
            self._last_makers[name] = maker

    def _state(self, name: str) -> _State:
        maker = self._makers.get(name)
        if maker is None:
            return _State(None, _NO_CELL)
        value = self._value_of(name, maker)
        return _State(value, self._first_makers.get((name, maker), maker))

    def _review(self, name: str, before: _State, changed_by: int | None) -> set[int]:
        """Decide anew which cells that have used a variable are stale.

        Args:
            name: The variable, which has changed.
            before: The variable before that.
            changed_by: The cell that has changed it; None for an undo or a new kernel.

        Returns:
            The cells whose staleness has changed.
        """
        users = self._users.get(name)
        if users is None:
            return set()
        now = self._state(name)
        if changed_by is None:
            # All stale cells are described anew.
            cells = users.all_cells()
        else:
            cells = users.affected_cells(before, now) - {changed_by}
        users.latest_changer = None

        changed_cells: set[int] = set()
        for cell in cells:
            use = self._uses[cell]
            stale_before = use.stale.get(name)
            if _is_as_used(name, now, cell, use):
                use.stale.pop(name, None)
            else:
                use.stale[name] = self._stale_input(name, cell, changed_by)
            stale_input = use.stale.get(name)
            if stale_input != stale_before:
                changed_cells.add(cell)
            if stale_input is not None and stale_input.changed_by is None:
                users.stale_by_undo.add(cell)
            else:
                users.stale_by_undo.discard(cell)
        return changed_cells

    def _stale_input(self, name: str, cell: int, changed_by: int | None) -> StaleInput:
        """Return how a variable is different from what a cell has used.

        Args:
            name: The variable, which has just changed.
            cell: The cell that has used it.
            changed_by: The cell that has changed it; None for an undo or a new kernel.
        """
        use = self._uses[cell]
        now_made_by = self._makers.get(name)
        if changed_by is None and now_made_by is not None and now_made_by > cell:
            # What an undo has brought back was made since the cell ran.
            changed_by = now_made_by
        if changed_by is None and now_made_by is None:
            changed_by = self._deleter_since(name, cell)
        stale_before = use.stale.get(name)
        if stale_before is not None and self._is_still_first(stale_before, changed_by, now_made_by):
            return stale_before
        return StaleInput(name, use.made_by[name], changed_by, now_made_by)

    def _deleter_since(self, name: str, cell: int) -> int | None:
        """Return the cell because of which a variable does not exist, after an undo or a redo: the last
        one that has deleted it, if that was after another cell and it was not made since; otherwise
        None."""
        deleter = self._deleters.get(name, 0)
        if deleter <= cell or deleter in self.undone_cells:
            return None
        last_maker = self._last_makers.get(name, 0)
        was_made_since = last_maker > deleter and last_maker not in self.undone_cells
        return None if was_made_since else deleter

    def _is_still_first(
        self, stale_before: StaleInput, changed_by: int | None, now_made_by: int | None
    ) -> bool:
        """Return whether a variable that has changed again, and is still not as it was used, was first
        changed by the cell that is named for it."""
        first_changer = stale_before.changed_by
        if first_changer is None or first_changer in self.undone_cells:
            return False
        if changed_by is None:
            # What a new kernel has without any cell is rather a different object.
            return now_made_by != 0
        return first_changer <= changed_by


def _unite_known(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return all inputs; none if they are too many to be known."""
    inputs = frozenset().union(*sets)
    return inputs if len(inputs) <= MAX_SOURCES else frozenset()


def _with_call_sources(inputs: CodeInputs) -> dict[str, Set[str]]:
    """Return the names from which the variables of a cell are computed, also by calls that may have
    changed them; of variables that it does not bind, only if the code shows what changed them."""
    return {
        name: sources | inputs.call_sources.get(name, frozenset())
        for name, sources in inputs.sources.items()
    }


def _is_as_used(name: str, now: _State, cell: int, use: _CellUse) -> bool:
    """Return whether a variable is as a cell had used it, but for the cell's own changes."""
    if name in use.changed_inputs and now.first_maker <= cell:
        return True
    return now.value == use.values[name]
