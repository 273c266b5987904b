"""Jupyter servers that are away for a while."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError, KernelState
from mahtab_tui.kernel.jupyter import conversation, server
from mahtab_tui.kernel.values import Status
from tests.integration.jupyter import TOKEN, Server, cells_at, jupyter_server
from tests.integration.kernels import Cells
from tests.tcp_proxy import TcpProxy, proxy_to
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyter_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RECONNECT", 0.7)
    monkeypatch.setattr(server, "KERNEL_CHECK_INTERVAL", 0.2)
    monkeypatch.setattr(conversation, "LATE", 0.5)


@pytest.fixture
def proxy(served: Server) -> Iterator[TcpProxy]:
    (port,) = re.findall(r":(\d+)/", served.address)
    with proxy_to(int(port)) as proxy:
        yield proxy


@pytest.fixture
def cells(served: Server, proxy: TcpProxy) -> Iterator[Cells]:
    """A kernel behind the proxy."""
    with cells_at(re.sub(r":\d+/", f":{proxy.port}/", served.address), TOKEN) as cells:
        yield cells


def is_lost(cells: Cells) -> bool:
    return cells.kernel.info().next_try > 0


def while_away(proxy: TcpProxy, cells: Cells) -> Callable[[], None]:
    """Cuts the connection, and lets it come back once the loss is noticed."""

    def cut() -> None:
        proxy.cut()
        wait_for(lambda: is_lost(cells))
        proxy.accepts = True

    return cut


def test_running_cell_continues_and_its_output_arrives_once(cells: Cells, proxy: TcpProxy) -> None:
    code = "import time\nprint('go')\nfor number in range(30): print(number); time.sleep(0.1)"
    result = cells.run_until("go", while_away(proxy, cells), code)
    assert (result.status, result.output.split()) == (Status.OK, ["go", *map(str, range(30))])
    states = [text for _, text in cells.host.states.queue if text]
    assert [text.partition(" http")[0].partition(" 127")[0] for text in states[-2:]] == [
        "Lost the connection to",
        "Reconnected to",
    ]
    assert not is_lost(cells)


def test_cell_entered_while_disconnected_runs_once(cells: Cells, proxy: TcpProxy) -> None:
    cells.run("count = []")
    proxy.cut()
    wait_for(lambda: is_lost(cells))
    threading.Timer(1.0, lambda: setattr(proxy, "accepts", True)).start()
    assert cells.text("count.append(1); len(count)") == "1\n"
    assert cells.text("len(count)") == "1\n"


def test_interrupt_gives_up_a_cell_waiting_for_the_connection(
    cells: Cells, proxy: TcpProxy
) -> None:
    cells.run("count = 0")
    proxy.cut()
    wait_for(lambda: is_lost(cells))
    threading.Timer(0.3, cells.kernel.interrupt).start()
    result = cells.run("count += 1")
    assert (result.status, result.detail) == (
        Status.INTERRUPTED,
        "The cell was not sent, because the connection was lost.",
    )
    with pytest.raises(KernelError, match="is lost"):
        cells.kernel.variables()
    proxy.accepts = True
    assert cells.text("count") == "0\n"
    assert cells.host.late.empty(), "a cell that was not sent interrupts nothing"


def test_hanging_connection_is_given_up(
    served: Server, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SILENT", 1)
    with cells_at(re.sub(r":\d+/", f":{proxy.port}/", served.address), TOKEN) as cells:
        cells.run("x = 5")
        proxy.passes.clear()
        wait_for(lambda: is_lost(cells))
        proxy.cut(accepts=True)
        proxy.passes.set()
        assert cells.text("x") == "5\n"


def test_cell_whose_end_was_lost_ends_with_an_explanation(cells: Cells, proxy: TcpProxy) -> None:
    def lose() -> None:
        proxy.swallows = True
        wait_for(lambda: Path(file).exists())
        time.sleep(0.5)  # what follows the end of the code is swallowed too
        while_away(proxy, cells)()
        proxy.swallows = False

    file = cells.text(
        "import os; ended = os.path.abspath(f'ended-{os.getpid()}'); print(ended)"
    ).strip()
    result = cells.run_until(
        "go", lose, "print('go')\nimport time; time.sleep(0.3); open(ended, 'w').close()"
    )
    assert result.status is Status.DIED
    assert (
        result.detail
        == "The connection was lost while it ran: how it ended is unknown, and some of its output may be missing."
    )
    assert cells.text("6 * 7") == "42\n"


def test_unacknowledged_cell_is_not_run_again(cells: Cells, proxy: TcpProxy) -> None:
    cells.run("count = 0")
    proxy.swallows = True

    def come_back() -> None:
        while_away(proxy, cells)()
        proxy.swallows = False

    threading.Timer(0.5, come_back).start()
    result = cells.run("count += 1")
    assert (result.status, result.detail) == (
        Status.DIED,
        "The connection was lost as the cell was sent: whether it ran is unknown.",
    )
    assert cells.text("count") == "1\n"


def test_server_returning_without_the_kernel_gets_a_new_one(
    served: Server, proxy: TcpProxy, tmp_path: Path
) -> None:
    with (
        jupyter_server(tmp_path) as other,
        cells_at(re.sub(r":\d+/", f":{proxy.port}/", served.address), TOKEN) as cells,
    ):
        (port,) = re.findall(r":(\d+)/", other.address)

        def moved() -> None:
            proxy.cut()
            proxy.to = int(port)
            proxy.accepts = True

        result = cells.run_until("go", moved, "x = 1; print('go')\nimport time; time.sleep(60)")
        assert result.status is Status.DIED
        assert "has ended the kernel" in result.detail
        cells.host.wait_for_state(KernelState.DEAD)
        cells.host.wait_for_state(KernelState.IDLE)
        assert "NameError" in cells.run("x").output
