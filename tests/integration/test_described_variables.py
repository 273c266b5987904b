"""Data as the model sees it: described by real kernels, without secrets and private variables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mahtab_tui.bus.masking import MASK, Secrets
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.kernel.values import Status
from mahtab_tui.llm.prompts import join_variables
from mahtab_tui.session.variable_context import ROOM, describe_for_model
from tests.integration.kernels import PATIENCE, Cells
from tests.integration.sessions import Opened

FRAME = "import pandas as pd\ncars = pd.DataFrame({'Name': ['bmw', 'fiat', 'vw'], 'Weight': [1500, 900, 1200]})"
DESCRIBED = "cars: DataFrame, 3 rows x 2 columns\nName        str\nWeight    int64\ncars.head(3):\n   Name  Weight\n0   bmw    1500\n1  fiat     900\n2    vw    1200"


def test_variables_are_described_while_a_cell_runs(cells: Cells) -> None:
    cells.run(FRAME)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        cell = pool.submit(
            cells.run_until,
            "go",
            begun.set,
            "import time; print('go', flush=True); time.sleep(1000)",
        )
        assert begun.wait(PATIENCE)
        try:
            whole = cells.kernel.describe(["cars", "nothing_here"], 1_000)
            cut = cells.kernel.describe(["cars"], 60)
        finally:
            cells.kernel.interrupt()
        assert cell.result().status is Status.INTERRUPTED
    assert whole == {"cars": DESCRIBED}
    assert cut == {"cars": "cars: DataFrame, 3 rows x 2 columns\nName        str\n..."}


KEY = "sk-proj-Qx7Zw9KdVb3mTn5Rj8Lp2Hs6"


@pytest.mark.parametrize("before", ["", "Authorization: Bearer ", "a" * 30])
def test_secrets_are_masked_even_when_truncated(cells: Cells, before: str) -> None:
    secrets = Secrets()
    secrets.add(KEY)
    cells.run(f"import pandas as pd\nkey = {before + KEY!r} * 5")
    cells.run(
        "table = pd.DataFrame({'header': [key, 'x'], key: [1, 2]})\nbox = {'k': key, key: [key], 'raw': key.encode()}\nraw = key.encode(); text = key"
    )
    plain = cells.kernel.describe(["table", "box", "raw", "text"], 2_000)
    found = MaskedKernel(cells.kernel, secrets).describe(["table", "box", "raw", "text"], 2_000)
    assert found.keys() == plain.keys() == {"table", "box", "raw", "text"}
    for name, text in found.items():
        assert KEY[:6] in plain[name] or name == "raw"
        assert KEY[:6] not in text
        assert name == "raw" or MASK in text


PRIVATE = """
import pandas as pd
salaries = pd.DataFrame({"name": ["Ann"], "salary": [424242]})
alias = salaries
box = {"inside": [salaries]}
top = [int(salaries.salary.max())]
def show(): return salaries
exec("holder".upper() + " = [" + "ries".join(["sala", ""]) + "]")  # no name of it stands in the code
"""


def test_private_variables_and_values_derived_from_them_are_not_described(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    it.run(PRIVATE, "raised = [value + 1 for value in top]", FRAME, "private('salaries')")
    session = it.session
    codes = ["salaries; alias; box; top; raised; show()", "cars"]
    text = join_variables(
        describe_for_model(
            session.kernel, session.private, "salaries alias box top raised HOLDER cars", codes
        )
    )
    assert text.startswith(DESCRIBED)
    assert "42424" not in text
    assert "salary" not in text
    assert "salaries: private" in text
    assert {"raised: list = 1 item", "HOLDER: list = 1 item"} <= set(text.split("\n"))


def test_all_descriptions_together_stay_within_the_limit(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    it.run(
        "import pandas as pd\nfor n in range(20): globals()[f'table{n}'] = pd.DataFrame({f'column {c}': ['value'] for c in range(40)})"
    )
    session = it.session
    text = join_variables(
        describe_for_model(session.kernel, session.private, "What is in table3?", [])
    )
    assert text.startswith("table3: DataFrame, 1 row x 40 columns\n")
    assert "table19: DataFrame, 1 row x 40 columns\n" in text
    described, _, rest = text.rpartition("\n\n")
    assert len(described) <= ROOM
    assert "table0: DataFrame = 1 × 40" in rest.split("\n")
