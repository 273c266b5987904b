"""Texts of private variables: which are told by the kernel, and where they are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mahtab_tui.bus.masking import MASK, Secrets
from mahtab_tui.worker import private_use as module
from mahtab_tui.worker.private_use import _contained, mentioned_names, private_use

LONG = "The quick brown fox jumps over the lazy dog, and then it sleeps until noon."


def redact(text: str, *private: str) -> str:
    secrets = Secrets()
    secrets.private.add(private)
    return secrets.redact_for_model(text)


def texts(value: Any) -> list[str]:
    found: list[str] = private_use({"x": value}, ["x"], [])["texts"]
    return found


def used(namespace: dict[str, Any], code: str, *names: str) -> list[str]:
    (found,) = private_use(namespace, names, [code])["used"]
    return list(found)


def test_short_text_matches_whole_and_long_text_in_part() -> None:
    assert redact("it is Jane Miller, not Jane", "Jane Miller") == f"it is {MASK}, not Jane"
    assert redact(f"a {LONG[10:60]} b", LONG) == f"a{MASK} b"
    assert redact(f"a {LONG[10:24]} b", LONG) == f"a {LONG[10:24]} b"
    assert redact(LONG + LONG, LONG) == MASK
    assert redact("Jane Miller" * 2, "Jane Miller") in (MASK, MASK * 2)


@pytest.mark.parametrize("write", [repr, json.dumps])
def test_private_text_is_found_in_code_and_json_escapes(write: Any) -> None:
    assert (
        redact(write('say "ä", \\it\'s\nall the same'), 'say "ä", \\it\'s\nall the same').count(
            MASK
        )
        == 2
    )


def test_nothing_is_found_without_private_texts_or_after_their_removal() -> None:
    secrets = Secrets()
    assert not secrets.may_redact
    secrets.private.add([LONG])
    assert secrets.may_redact
    secrets.private.replace(())
    assert secrets.redact_for_model(LONG) == LONG


def test_answer_values_for_agents_are_covered_but_not_their_words() -> None:
    secrets = Secrets()
    secrets.private.add(["interrupted by Jane", LONG])
    assert secrets.redact_value({"status": "interrupted by Jane", "output": [LONG]}) == {
        "status": "interrupted by Jane",
        "output": [MASK],
    }


def test_matching_hostile_text_takes_linear_time() -> None:
    secrets = Secrets()
    secrets.private.add(["-" * 5_000, "ab" * 3_000, *(f"{at:08} value" for at in range(2_000))])
    assert secrets.redact_for_model("-" * 200_000 + "x" + "ab" * 100_000).count("x") == 1


def test_value_texts_omit_single_words_and_short_texts() -> None:
    assert set(
        texts(["customer", "Country_name", "yes", "Jane Miller", 12345678, 7, b"bytes of it"])
    ) == {"Jane Miller", "12345678", "bytes of it"}
    assert texts({"some key": {"in another": ("and deeper",)}}) == [
        "some key",
        "in another",
        "and deeper",
    ]
    assert texts(ValueError("an error that quotes")) == ["an error that quotes"]

    class Holder:
        def __init__(self) -> None:
            self.it = "held by an instance"

    assert texts(Holder()) == ["held by an instance"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_table_labels_and_cells_are_included(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"the column": ["the 1st cell", "the 2nd cell"], "number": [1, 2]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    assert set(texts(table)) == {"the column", "the 1st cell", "the 2nd cell"}


def test_no_code_of_user_classes_runs() -> None:
    ran = []

    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            ran.append("eq")
            return False

        def __hash__(cls) -> int:
            ran.append("hash")
            return 1

        def __getattribute__(cls, name: str) -> Any:
            ran.append(name)
            return super().__getattribute__(name)

    class Odd(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            ran.append("repr")
            return ""

    namespace: dict[str, Any] = {"odd": Odd(), "box": [Odd()]}
    ran.clear()
    private_use(namespace, ["odd"], ["box", "odd"])
    assert ran == []


def test_code_uses_names_calls_and_everything_reachable() -> None:
    namespace: dict[str, Any] = {"secret": ["a value of it"], "number": 5, "five": 5}
    exec(
        "def show():\n    return inner()\ndef inner(): return secret\nbox = {'it': [secret]}\nalias = secret",
        namespace,
    )
    for code in (
        "secret",
        "show()",
        "box",
        "alias",
        "globals()",
        "'secret'",
        "f'{secret}'",
        "def f(): return secret",
        "%time secret",
        "del secret",
    ):
        assert used(namespace, code, "secret") == ["secret"], code
    for code in ("number", "x = 1", "for _ in range(3): pass", "secrets", "other.secret_one"):
        assert used(namespace, code, "secret") == [], code
    assert used(namespace, "five", "number") == [], "equal numbers are no aliases"
    assert private_use(namespace, ["secret"], [])["aliases"] == ["alias"]


def test_large_collections_are_searched_from_their_start() -> None:
    secret = ["a value of it"]
    for large in (
        [secret, *range(10**6)],
        dict.fromkeys(range(10**6), 0) | {"k": 1},
        set(range(10**6)),
    ):
        assert len(_contained(large)) <= 2 * 20_000
    assert used({"secret": secret, "large": [secret, *range(10**6)]}, "large", "secret") == [
        "secret"
    ]

    class Own(list[Any]):
        """A list with attributes."""

    own = Own()
    own.more = secret  # type: ignore[attr-defined]
    assert used({"secret": secret, "own": own}, "own", "secret") == ["secret"]


def test_each_variable_is_traversed_once_for_all_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked: list[object] = []
    walk = module._walk

    def counted(root: Any, namespace: dict[str, Any]) -> Iterator[Any]:
        walked.append(root)
        return walk(root, namespace)

    monkeypatch.setattr(module, "_walk", counted)
    private_use({"secret": ["a value"], "box": [1]}, ["secret"], ["box"] * 1_000)
    assert walked == [[1]]


def test_names_in_strings_and_in_non_python_code_count_as_mentioned() -> None:
    assert mentioned_names("eval('df.head()')") >= {"eval", "df", "head"}
    assert "df" in mentioned_names("!echo {df}\n%whos")
    assert "df" in mentioned_names("print(df")
    assert "_" not in mentioned_names("for _ in x: pass")
    assert "_" in mentioned_names("_ + 1")
