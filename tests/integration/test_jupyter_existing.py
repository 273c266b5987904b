"""Kernels of Jupyter servers, of other programs and for other languages; servers that are away."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError, KernelState
from mahtab_tui.kernel.jupyter import conversation, kernel, server
from mahtab_tui.kernel.values import Status
from tests.integration.jupyter import (
    TOKEN,
    Server,
    cells_at,
    install_upper,
    jupyter_server,
    running_kernel,
    start,
    value_for,
)
from tests.integration.kernels import Cells
from tests.tcp_proxy import TcpProxy, proxy_to
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyter_server(tmp_path_factory.mktemp("server")) as found:
        yield found


def test_server_kernel_runs_cells_and_can_be_inspected(served: Server) -> None:
    with cells_at(f"{served.address}?token={TOKEN}") as cells:
        assert cells.text("print('hi'); x = [1]\nx") == "hi\n[1]\n"
        assert cells.kernel.info().cwd == str(served.root)
        assert [each.name for each in cells.kernel.variables()] == ["x"]
        assert cells.kernel.inspect("x").text == "[1]"
        assert "ZeroDivisionError" in cells.run("1 / 0").output
        cells.host.answer = lambda name, args: "typed"
        assert cells.text("input('? ')") == "? typed\n'typed'\n"
        assert (
            cells.interrupt_after("go", "print('go')\nwhile True: pass").status
            is Status.INTERRUPTED
        )
        assert cells.run("import os; os._exit(1)").status is Status.DIED
        assert "has ended" in cells.host.wait_for_state(KernelState.DEAD)
        assert "NameError" in cells.run("x").output
        cells.kernel.reset()
        assert cells.text("1 + 1") == "2\n"


def test_server_kernel_is_joined_and_left_running(served: Server) -> None:
    with cells_at(served.address, TOKEN) as cells:
        cells.run("x = 5")
        wire = cells.kernel._wire  # type: ignore[attr-defined]
        address = f"{served.address}?id={wire._manager.kernel['id']}"
        with cells_at(address, TOKEN) as joined:
            assert joined.text("x") == "5\n"
            with pytest.raises(KernelError, match="the program that started this kernel"):
                joined.kernel.reset()
        assert cells.text("x") == "5\n"


@pytest.mark.parametrize(
    ("more", "token", "sentence"),
    [
        ("", "wrong", "refuses the token"),
        ("", "", "refuses the token"),
        ("?kernel=nothing", TOKEN, r"has no kernel named nothing; it has .*python3"),
        ("?id=nothing", TOKEN, "could not find the kernel nothing"),
        ("/elsewhere", TOKEN, "HTTP status 404|not a Jupyter server"),
    ],
)
def test_refusal_of_a_server_gives_one_sentence_without_the_token(
    served: Server, more: str, token: str, sentence: str
) -> None:
    with pytest.raises(KernelError, match=sentence) as raised:
        start(f"{served.address}{more}", token)
    assert not token or token not in str(raised.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_custom_certificate_is_trusted_where_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    about = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -days 2"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes {about}".split()
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    with jupyter_server(tmp_path, f"--certfile={certificate}", f"--keyfile={key}") as served:
        with pytest.raises(
            KernelError,
            match=r"^The certificate of .* is not trusted\. .* SSL_CERT_FILE and REQUESTS_CA_BUNDLE",
        ):
            start(served.address, TOKEN)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with cells_at(served.address, TOKEN) as cells:
            assert cells.text("6 * 7") == "42\n"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("jupyter+http://127.0.0.1:1/user/", "There is no server at 127.0.0.1:1/user."),
        ("existing:/nothing.json", "There is no connection file /nothing.json."),
    ],
)
def test_missing_kernel_gives_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(KernelError, match=f"^{re.escape(sentence)}$"):
        start(address, TOKEN)


def test_kernel_of_a_vanished_server_can_be_given_up(tmp_path: Path) -> None:
    with jupyter_server(tmp_path) as gone, cells_at(gone.address, TOKEN) as cells:

        def give_up() -> None:
            gone.process.kill()
            gone.process.wait()
            with pytest.raises(KernelError, match="There is no server"):
                cells.kernel.kill()

        assert (
            cells.run_until("go", give_up, "print('go')\nimport time; time.sleep(60)").status
            is Status.KILLED
        )
        result = cells.run("1")
        assert result.status is Status.DIED
        assert "There is no server" in result.detail


@pytest.mark.parametrize(
    "address",
    [
        "jupyter+ftp://x",
        "jupyter+http://",
        "jupyter+http://me:secret@x/",
        "jupyter+http://x:port/",
        "jupyter+http://x/?odd=1",
        "jupyter:",
        "existing: ",
    ],
)
def test_malformed_address_gives_one_sentence_without_secrets(address: str) -> None:
    with pytest.raises(KernelError) as raised:
        start(address)
    assert re.fullmatch(r"[^\n]+\.", str(raised.value))
    assert "secret" not in str(raised.value)


def test_kernel_of_another_program_is_shared_and_left_unchanged(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as (file, client, process):
        names = "sorted(__import__('builtins').__dict__), sorted(globals()), len(__import__('sys').meta_path)"
        client.execute_interactive("theirs = 1", timeout=60)
        before = value_for(client, names)
        with cells_at(f"existing:{file}") as cells:
            assert cells.text("theirs") == "1\n"
            assert {each.name for each in cells.kernel.variables()} == {"theirs"}
            cells.run("ours = 2")
            assert value_for(client, "ours")["data"]["text/plain"] == "2"
            assert (
                cells.interrupt_after("go", "print('go')\nwhile True: pass").status
                is Status.INTERRUPTED
            )
            with pytest.raises(KernelError, match="Only the program that started"):
                cells.kernel.reset()
            cells.run("del ours; Out.clear()")
        after = value_for(client, names)
        assert process.poll() is None
        assert _words(after) - _words(before) <= {"_i", "_ii", "_iii"} | {
            f"_i{n}" for n in range(9)
        } | {f"_{n}" for n in range(9)} | {"2"}


def test_death_of_another_programs_kernel_gives_one_sentence(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as (file, _, process), cells_at(f"existing:{file}") as cells:
        result = cells.run_until("go", process.kill, "print('go')\nimport time; time.sleep(60)")
        assert (result.status, result.detail) == (
            Status.DIED,
            f"The kernel of {file} no longer answers.",
        )
        assert cells.run("1").detail == result.detail


def test_connection_file_of_a_dead_kernel_gives_one_sentence(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as (file, _, _process):
        pass
    with pytest.raises(KernelError, match="no longer answers"):
        start(f"existing:{file}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "no json",
        json.dumps({"transport": "odd", "shell_port": 1}),
        '{"shell_port": "x"}',
        '{"key": 5}',
    ],
)
def test_broken_connection_file_gives_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(KernelError, match=r"(?s)^The connection file .* is broken: .*\.$"):
        start(f"existing:{file}")


def test_kernel_of_another_language_is_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", install_upper(tmp_path))
    with cells_at("jupyter:upper") as cells:
        assert cells.text("hello") == "HELLO\n"
        failed = cells.run("fail")
        assert (failed.status, failed.output) == (Status.ERROR, "Failed: as asked\n")
        assert "the kernel did not report how the cell ended" in cells.run("crash").output
        assert [each.label for each in cells.kernel.complete("lo", 2).items] == ["lower", "LOWER"]
        assert cells.kernel.variables() == []
        assert cells.kernel.explain("lo", 2) is None
        with pytest.raises(
            KernelError,
            match=r"^This is a kernel for upper, which does not report its variables\.$",
        ):
            cells.kernel.inspect("x")
        assert cells.interrupt_after("go", "wait").status is Status.INTERRUPTED
        result = cells.run("odd")
        assert (result.status, result.output.splitlines()[-1]) == (Status.OK, "ODD")
        assert cells.text("again") == "AGAIN\n"


def test_missing_libraries_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "mahtab_tui.kernel.jupyter.local", raising=False)
    monkeypatch.setitem(sys.modules, "jupyter_client.kernelspec", None)
    with pytest.raises(KernelError, match=r"^Kernels of Jupyter need .* mahtab-tui\[jupyter\]\.$"):
        kernel.jupyter_kernel("jupyter:python3", "", "/", "")


def _words(reply: dict[str, dict[str, str]]) -> set[str]:
    return set(re.findall(r"\w+", reply["data"]["text/plain"]))


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
def proxied_cells(served: Server, proxy: TcpProxy) -> Iterator[Cells]:
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


def test_running_cell_continues_and_its_output_arrives_once(
    proxied_cells: Cells, proxy: TcpProxy
) -> None:
    # What is on its way to a connection that breaks is lost: the server notices the loss first.
    code = "import time\nprint('go'); time.sleep(1)\nfor number in range(30): print(number); time.sleep(0.1)"
    result = proxied_cells.run_until("go", while_away(proxy, proxied_cells), code)
    assert (result.status, result.output.split()) == (Status.OK, ["go", *map(str, range(30))])
    states = [text for _, text in proxied_cells.host.states.queue if text]
    assert [text.partition(" http")[0].partition(" 127")[0] for text in states[-2:]] == [
        "Lost the connection to",
        "Reconnected to",
    ]
    assert not is_lost(proxied_cells)


def test_cell_entered_while_disconnected_runs_once(proxied_cells: Cells, proxy: TcpProxy) -> None:
    proxied_cells.run("count = []")
    proxy.cut()
    wait_for(lambda: is_lost(proxied_cells))
    threading.Timer(1.0, lambda: setattr(proxy, "accepts", True)).start()
    assert proxied_cells.text("count.append(1); len(count)") == "1\n"
    assert proxied_cells.text("len(count)") == "1\n"


def test_interrupt_gives_up_a_cell_waiting_for_the_connection(
    proxied_cells: Cells, proxy: TcpProxy
) -> None:
    proxied_cells.run("count = 0")
    proxy.cut()
    wait_for(lambda: is_lost(proxied_cells))
    threading.Timer(0.3, proxied_cells.kernel.interrupt).start()
    result = proxied_cells.run("count += 1")
    assert (result.status, result.detail) == (
        Status.INTERRUPTED,
        "The cell was not sent, because the connection was lost.",
    )
    with pytest.raises(KernelError, match="is lost"):
        proxied_cells.kernel.variables()
    proxy.accepts = True
    assert proxied_cells.text("count") == "0\n"
    assert proxied_cells.host.late.empty(), "a cell that was not sent interrupts nothing"


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


def test_cell_whose_end_was_lost_ends_with_an_explanation(
    proxied_cells: Cells, proxy: TcpProxy
) -> None:
    def lose() -> None:
        proxy.swallows = True
        wait_for(lambda: Path(file).exists())
        time.sleep(0.5)  # what follows the end of the code is swallowed too
        while_away(proxy, proxied_cells)()
        proxy.swallows = False

    file = proxied_cells.text(
        "import os; ended = os.path.abspath(f'ended-{os.getpid()}'); print(ended)"
    ).strip()
    result = proxied_cells.run_until(
        "go", lose, "print('go')\nimport time; time.sleep(0.3); open(ended, 'w').close()"
    )
    assert result.status is Status.DIED
    assert "how the cell ended is unknown" in result.detail
    assert proxied_cells.text("6 * 7") == "42\n"


def test_unacknowledged_cell_is_not_run_again(proxied_cells: Cells, proxy: TcpProxy) -> None:
    proxied_cells.run("count = 0")
    proxy.swallows = True

    def come_back() -> None:
        proxy.has_swallowed.wait()
        time.sleep(0.5)  # the cell's other messages are swallowed too
        while_away(proxy, proxied_cells)()
        proxy.swallows = False

    threading.Thread(target=come_back).start()
    result = proxied_cells.run("count += 1")
    assert result.status is Status.DIED
    assert "how the cell ended is unknown" in result.detail
    assert proxied_cells.text("count") == "1\n"


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
