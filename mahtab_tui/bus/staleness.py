"""Knows which results no longer hold: those of cells that have used variables that are different now.

`code_inputs` says which variables a cell uses; the kernel's records (`Namespace`) say which ones each
cell has made or changed, which `variable_makers` remembers. A cell is stale while one of its inputs has
another value than when it ran.
`stale_results` marks the entries of a conversation, and `session.stale_outputs` tells the model.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from mahtab_tui.bus.cell_uses import CellUse, VariableUsers
from mahtab_tui.bus.code_flow import Definition, Origin
from mahtab_tui.bus.code_inputs import CodeInputs, find_inputs, instance_of
from mahtab_tui.bus.input_sources import SourceFinder, unite_known
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.stale_inputs import StaleInput, VariableVersion
from mahtab_tui.bus.values import Change
from mahtab_tui.bus.variable_makers import GONE, VariableMakers, VariableState

_UNCERTAIN = ("perhaps", "restoring")
"""Kinds of changes after which a variable may be as before."""
_ANEW = ("added", "rebound")
"""Kinds of changes that make a variable anew."""


class _Step(NamedTuple):
    """The part of a cell that computes variables from the same inputs."""

    maker: int
    """The cell."""
    sources: frozenset[str]
    """The inputs."""


class Staleness:
    """Follows variables through the cells of a session.

    A cell is stale while an input has another value than when it ran; `VariableMakers` knows the
    values. A cell that has changed its own input is stale only once that variable was made anew
    without it.
    """

    def __init__(self) -> None:
        self._makers = VariableMakers()
        self._definitions: dict[tuple[str, int], Definition] = {}
        """Functions, classes and instances by name and the cell that has made them."""
        self._uses: dict[int, CellUse] = {}
        self._users: defaultdict[str, VariableUsers] = defaultdict(VariableUsers)
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
        current_versions = [VariableVersion(*item) for item in self._makers.current.items()]
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
        return any(name in use.stale and name in self._makers.current for name in step.sources)

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
                maker = self._makers.current.get(name, maker)
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
        makers = self._makers.current
        made_by = {name: makers[name] for name in names if name in makers}
        values = {name: self._makers.value_of(name, maker) for name, maker in made_by.items()}
        finder = SourceFinder(self._definition, made_by.keys())
        use = CellUse(
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
        makers = self._makers.makers_after_undo(sorted(cells), undone=undone)
        return self._stale_runs_before(cells) | self._replace_makers(makers)

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
        self._makers.forget(cell)

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
        return self._definitions.get((name, self._makers.current.get(name, -1)))

    def _resolve(self, origin: Origin) -> Definition | None:
        """Return the code that a variable got from another one, which is as before the cell."""
        definition = self._definition(origin.name)
        if definition is None or not origin.is_called:
            return definition
        return instance_of(origin.name, definition) if definition.is_class else None

    def fold(self, record: Namespace) -> set[int]:
        """Note changes of variables. Return the cells whose staleness has changed."""
        if record.fresh:
            return self._replace_makers(self._makers.makers_in_new_kernel(record.changes))
        if record.restored or not record.cell:
            makers = self._makers.makers_restored(record.cell or 0, record.changes)
            return self._replace_makers(makers)
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
                self._makers.note_made(change, cell)
            else:
                self._note_maker(change, cell)
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
                use.sources[name] = unite_known([sources, use.sources_of(name)])

        names_in_place = {change.name for change in changes if change.change == "changed"}
        shown_names = names_in_place & use.sources.keys()
        other_name_sources = unite_known(use.sources[name] for name in shown_names)
        for name in names_in_place - shown_names - use.call_targets:
            use.sources[name] = unite_known([other_name_sources, use.sources_of(name)])

    def _sources_in_functions(
        self, use: CellUse, hidden_names: Set[str]
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
        return {name: unite_known(sources) for name, sources in sources_by_name.items()}

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
        before = self._makers.state_of(name)
        use = self._uses.get(cell)
        is_input = use is not None and name in use.made_by
        self._note_maker(change, cell)
        is_gone = change.change in GONE
        is_equal = not is_gone and self._makers.value_of(name, cell) == before.value
        if is_equal or (is_input and before.value is not None and not is_gone):
            self._makers.note_first_maker(name, cell, before.first_maker)
        if use is not None and is_input and name not in use.changed_inputs:
            use.changed_inputs.add(name)
            self._users[name].add_changer(cell)
        changed_cells = self._review(name, before, cell)
        if is_input:
            self._users[name].latest_changer = cell
        return changed_cells

    def _note_maker(self, change: Change, cell: int) -> None:
        """Note which cell a variable is from after its change."""
        name = change.name
        if change.change in GONE:
            self._makers.note_gone(name, cell)
            return
        maker_before = self._makers.current.get(name)
        if change.change == "changed" and maker_before is not None:
            self._keep_definition(name, maker_before, cell)
        self._makers.note_made(change, cell)

    def _keep_definition(self, name: str, maker_before: int, cell: int) -> None:
        """Note that a variable has the same code after a cell has changed it in place."""
        definition = self._definitions.get((name, maker_before))
        if definition is not None:
            self._definitions.setdefault((name, cell), definition)

    def _replace_makers(self, makers: Mapping[str, int | None]) -> set[int]:
        """Note that variables are as cells had made them, for an undo or in a new kernel.

        Args:
            makers: The cell by variable; 0 if no cell had made it, None if it is gone.
        """
        changed_cells: set[int] = set()
        for name, maker in makers.items():
            is_used = name in self._users
            state_before = self._makers.state_of(name) if is_used else None
            self._makers.replace(name, maker)
            if state_before is not None:
                changed_cells |= self._review(name, state_before, None)
        return changed_cells

    def _review(self, name: str, before: VariableState, changed_by: int | None) -> set[int]:
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
        now = self._makers.state_of(name)
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
        now_made_by = self._makers.current.get(name)
        if changed_by is None and now_made_by is not None and now_made_by > cell:
            # What an undo has brought back was made since the cell ran.
            changed_by = now_made_by
        if changed_by is None and now_made_by is None:
            changed_by = self._makers.deleter_since(name, cell, self.undone_cells)
        stale_before = use.stale.get(name)
        if stale_before is not None and self._is_still_first(stale_before, changed_by, now_made_by):
            return stale_before
        return StaleInput(name, use.made_by[name], changed_by, now_made_by)

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


def _with_call_sources(inputs: CodeInputs) -> dict[str, Set[str]]:
    """Return the names from which the variables of a cell are computed, also by calls that may have
    changed them; of variables that it does not bind, only if the code shows what changed them."""
    return {
        name: sources | inputs.call_sources.get(name, frozenset())
        for name, sources in inputs.sources.items()
    }


def _is_as_used(name: str, now: VariableState, cell: int, use: CellUse) -> bool:
    """Return whether a variable is as a cell had used it, but for the cell's own changes."""
    if name in use.changed_inputs and now.first_maker <= cell:
        return True
    return now.value == use.values[name]
