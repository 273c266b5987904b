"""Questions about definitions, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Value = float | str
Pattern = Literal["build", "inherit", "update", "suppose", "roll back", "compose"]
PATTERNS: Sequence[Pattern] = ("build", "inherit", "update", "suppose", "roll back", "compose")
DECIMALS = 2
"""To which answers are rounded."""


@dataclass(frozen=True)
class Rule:
    """A definition, such as that of warm days."""

    words: str
    """Follow "if"."""
    query: str
    """Of pandas."""


@dataclass(frozen=True)
class Measure:
    """What is asked about the rows that a definition selects."""

    words: str
    """With ``{rows}`` for the rows, as in "warm days"."""
    compute: Callable[[pd.DataFrame, pd.DataFrame], Value]
    """Gets the selected rows and the whole table."""


def count() -> Measure:
    return Measure("How many {rows} are there?", lambda rows, table: float(len(rows)))


def count_if(condition: str, query: str) -> Measure:
    def compute(rows: pd.DataFrame, table: pd.DataFrame) -> Value:
        return float(len(rows.query(query, engine="python")))

    return Measure(f"How many {{rows}} {condition}?", compute)


def share() -> Measure:
    words = "What percentage of the whole table are the {rows}? Round to two decimals."
    return Measure(words, lambda rows, table: 100 * len(rows) / len(table))


def mean(column: str) -> Measure:
    words = f"What is the mean {column} of the {{rows}}? Round to two decimals."
    return Measure(words, lambda rows, table: float(rows[column].mean()))


def largest(column: str) -> Measure:
    words = f"What is the largest {column} of the {{rows}}?"
    return Measure(words, lambda rows, table: float(rows[column].max()))


def smallest(column: str) -> Measure:
    words = f"What is the smallest {column} of the {{rows}}?"
    return Measure(words, lambda rows, table: float(rows[column].min()))


def commonest(column: str) -> Measure:
    words = f"Which {column} is the commonest among the {{rows}}?"
    return Measure(words, lambda rows, table: str(rows[column].value_counts().index[0]))


@dataclass(frozen=True)
class Step:
    """A question of a conversation."""

    pattern: Pattern
    names: Sequence[str]
    """The definitions that it is about; the first is the one that it changes."""
    measure: Measure
    rule: Rule | None = None
    """The new definition, if it makes, changes or supposes one."""


@dataclass(frozen=True)
class PatternQuestion:
    pattern: Pattern
    text: str
    truth: Value
    stale: Value | None
    """The answer under a definition that does not hold; None if there has been no other."""


@dataclass(frozen=True)
class Conversation:
    name: str
    table: str
    """A name of `SOURCES`."""
    unit: str
    """What a row is, such as "day"."""
    steps: Sequence[Step]

    def questions(self, table: pd.DataFrame) -> list[PatternQuestion]:
        state = _Definitions(self.unit, table)
        return [state.ask(step) for step in self.steps]


class _Definitions:
    """The definitions of a conversation while it goes on."""

    def __init__(self, unit: str, table: pd.DataFrame) -> None:
        self._unit = unit
        self._a_unit = f"an {unit}" if unit[0] in "aeiou" else f"a {unit}"
        self._table = table
        self._rules: dict[str, list[Rule]] = {}
        """All definitions of each name, the one that holds last."""
        self._outdated: dict[str, Rule] = {}
        """The definition of each name that was left last."""

    def ask(self, step: Step) -> PatternQuestion:
        lead = self._apply(step)
        rules = {name: self._rules[name][-1] for name in step.names}
        outdated = {**rules, **{n: rule for n, rule in self._outdated.items() if n in rules}}
        if step.pattern == "suppose":
            assert step.rule is not None
            name = step.names[0]
            outdated = dict(rules)
            rules = {**rules, name: step.rule}
            # An answer to the next question that still supposes it is outdated.
            self._outdated[name] = step.rule
        return PatternQuestion(
            step.pattern,
            f"{lead} {step.measure.words.format(rows=self._describe(step.names))}".strip(),
            self._compute(step.measure, rules),
            None if outdated == rules else self._compute(step.measure, outdated),
        )

    def _apply(self, step: Step) -> str:
        """Change the definitions, and say so."""
        if not step.names or step.pattern in ("inherit", "compose"):
            return ""
        name = step.names[0]
        if step.pattern == "roll back":
            self._outdated[name] = self._rules[name].pop()
            return f"Go back to the definition of {name} before its last change."
        assert step.rule is not None
        if step.pattern == "build":
            self._rules[name] = [step.rule]
            return f"Call {self._a_unit} {name} if {step.rule.words}."
        if step.pattern == "suppose":
            return (
                f"Suppose, for this question only, that {self._a_unit} is {name}"
                f" if {step.rule.words}."
            )
        self._outdated[name] = self._rules[name][-1]
        self._rules[name].append(step.rule)
        return f"From now on, {self._a_unit} is {name} if {step.rule.words}."

    def _describe(self, names: Sequence[str]) -> str:
        if len(names) == 1:
            return f"{names[0]} {self._unit}s"
        return f"{self._unit}s that are both {names[0]} and {names[1]}"

    def _compute(self, measure: Measure, rules: Mapping[str, Rule]) -> Value:
        rows = self._table
        for rule in rules.values():
            rows = rows.query(rule.query, engine="python")
        value = measure.compute(rows, self._table)
        return round(value, DECIMALS) if isinstance(value, float) else value
