"""Compares the variables that a session has saved with those of fresh runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.values import Fingerprint
from mahtab_tui.session.checking.comparison import RANDOM, Comparison
from mahtab_tui.session.checking.fresh_run import FreshRun


class SavedVariables(NamedTuple):
    """The variables that a session has saved."""

    fingerprints: Mapping[str, Fingerprint]
    """The fingerprints of the restored values, by variable."""
    variables: Mapping[str, Variable]
    """The restored variables by name."""
    missing_reasons: Mapping[str, str]
    """Why variables are not among them, as clauses, by name."""
    saved_at: float
    """When they were saved, in seconds since the epoch."""


class VariablesNotCompared(Exception):
    """The saved variables cannot be read. The message is a sentence that says why."""


def restore_saved(kernel: Kernel, saved_at: float) -> SavedVariables:
    """Restore the variables of a session in a kernel that was started with their folder.

    Args:
        kernel: A kernel in which no cell has run.
        saved_at: When the variables were saved, in seconds since the epoch.

    Raises:
        KernelError: The kernel cannot restore them.
    """
    namespace = kernel.saved_namespace()
    assert namespace is not None
    missing_reasons = {lost.variable.name: lost.reason for lost in namespace.missing}
    saved_names: set[str] = set()
    for file in namespace.files:
        saved_names.update(variable.name for variable in file.variables)
        missing_reasons.update(kernel.restore(file).missing)

    # The user's startup code has made variables of its own.
    variables = {
        variable.name: variable for variable in kernel.variables() if variable.name in saved_names
    }
    fingerprints = kernel.fingerprints(list(variables))
    return SavedVariables(fingerprints, variables, missing_reasons, saved_at)


def compare_variable(
    saved: Variable,
    saved_fingerprint: Fingerprint | None,
    runs: Sequence[FreshRun],
    maker_name: str,
) -> Comparison:
    """Compare a saved variable with that of the same name in fresh runs.

    Args:
        saved: The variable as the session has saved it.
        saved_fingerprint: The fingerprint of the saved value; None if there is none.
        runs: One or two fresh runs.
        maker_name: The name of the cell that has changed the variable last, such as ``In 3``; empty
            if that cell is not among those that are checked.
    """
    name = saved.name
    first_run = runs[0]
    fresh = first_run.variables.get(name)
    if fresh is None:
        reason = "no cell that counts makes it"
        if maker_name:
            reason = f"{maker_name} does not make it any more"
        return Comparison(name, "different", reason, _describe(saved))

    fresh_fingerprint = first_run.fingerprints.get(name)
    if saved_fingerprint is None or fresh_fingerprint is None:
        return Comparison(name, "not comparable", "it could not be read")
    if not saved_fingerprint.digest or not fresh_fingerprint.digest:
        reason = saved_fingerprint.reason or fresh_fingerprint.reason
        return Comparison(name, "not comparable", reason)
    if saved_fingerprint.digest == fresh_fingerprint.digest:
        return Comparison(name, "same")
    if any(run.fingerprints.get(name) != fresh_fingerprint for run in runs[1:]):
        return Comparison(name, "not comparable", RANDOM)

    saved_text = _describe(saved)
    fresh_text = _describe(fresh)
    reason = ""
    if saved_text == fresh_text:
        reason = "another value, described in the same way"
    return Comparison(name, "different", reason, saved_text, fresh_text)


def _describe(variable: Variable) -> str:
    """Return a variable's type and value in one line, such as ``DataFrame 10,000 × 5``."""
    return f"{variable.type} {variable.summary}".rstrip()
