"""Code that waits, runs by rules, is reviewed, or only plans."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Decision
from mahtab_tui.bus.values import Change, Status, Variable
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.code_rules import CodeRequest
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.user_requests import Permission
from mahtab_tui.system import start_thread
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import RecordedSession, code
from tests.integration.sessions import Opened, OpenSession, texts
from tests.waiting import wait_for

# Code that runs by rules, and what it is asked about while it runs.

READ_ONLY = ("allow: read_only",)
WRITE = "open('x', 'w').close()"

PROTECTED_WRITES = {
    "open('AGENTS.md', 'a').write('x')": "AGENTS.md",
    "create('.mahtab/config.toml', 'approval = \"auto\"')": ".mahtab/config.toml",
    "import os\nos.rename('x', '.git/hooks/pre-commit')": ".git/hooks/pre-commit",
    "!echo x >> .bashrc": ".bashrc",
    "open('link', 'w')": "link",
}

SUMMARIZE = """
import functools
from functools import partial
WORDS = {'long': 'short'}
class Cleaner:
    def clean(self, text): return strip(text)
def strip(text): return text.strip()
def helper(text, cleaner=Cleaner()): return cleaner.clean(WORDS.get(text, text))
def decorated(function):
    @functools.wraps(function)
    def run(text): return function(text)
    return run
@decorated
def summarize(text, *, limit=10): return helper(text)[:limit] if len(text) else text
"""
CHANGES = {
    "summarize = print": "summarize",
    "del summarize\nfrom subprocess import Popen as summarize": "summarize",
    "globals()['summarize'] = print": "summarize",
    "exec('def summarize(text): pass')": "summarize",
    "summarize.__wrapped__.__code__ = (lambda text, *, limit=1: 1).__code__": "summarize",
    "summarize.__wrapped__.__kwdefaults__ = {'limit': 1}": "summarize",
    "summarize.__closure__[0].cell_contents = print": "summarize",
    "summarize = decorated(summarize)": "summarize",
    "summarize = partial(summarize, limit=1)": "summarize",
    "helper = print": "helper",
    "del helper": "helper",
    "try: 1 / 0\nexcept Exception as helper: pass": "helper",
    "globals().update(helper=print)": "helper",
    "summarize.__globals__['helper'] = print": "helper",
    "setattr(helper, '__code__', strip.__code__)": "helper",
    "helper.__defaults__ = (1,)": "helper",
    "exec('helper = print')": "helper",
    "Cleaner.clean = print": "Cleaner",
    "strip = print": "strip",
    "WORDS['x'] = 'y'": "WORDS",
    "len = print": "len",
    "import builtins as len": "len",
}
"""What code may change of `summarize`, and the name that the question gives."""

PROPOSED = "I have looked. My plan:\n\n- [ ] load the file\n- [ ] plot it\n"
DIGEST = (
    "sorted((name, repr(value)) for name, value in globals().items() if not name.startswith('_'))"
)
HOSTILE = [
    "items.append(3)\nitems = None\nnew = 1",
    "writer('made', mode)",
    "globals()['items'].clear()",
    "import asyncio\nawait asyncio.sleep(0)\nasync def later():\n    items.clear()\nt = asyncio.create_task(later())",
    "table['a'] = 2\ndel table\nholder.value = 5",
    "class A:\n    def __del__(self): items.append(9)\na = A()\ndel a",
    "!touch made",
    "save()",
    "items.sort(reverse=True)\n1/0",
]
SETUP = "items, table, writer, mode = [1, 2], {'a': 1}, open, 'w'\nclass Holder:\n    value = 1\n    def __repr__(self): return str(vars(self))\nholder = Holder()\ndef save(): writer('made', mode)"

APPEND = code("items.append(2)\ndel old\nnew = 'three'")
TWO = code("items.append(2)", "items.append(3)")


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadlessFrontend, "can_ask", True)


def output(it: Opened, cell: int) -> Any:
    return it.store.wait(tags.ASSISTANT_REPL_OUT, cell=cell)


def approvals(it: Opened) -> list[str]:
    return [record.state for record in it.store.of(tags.APPROVAL)]


def test_read_only_code_runs_without_a_question(open_session: OpenSession) -> None:
    it = open_session(code("sum([1, 2])"), "3.", approval_rules=READ_ONLY)
    it.ask_and_wait("how much?")
    assert output(it, 1).text == "3\n"
    assert approvals(it) == []


def test_code_needing_more_asks_with_the_reason_and_runs_when_allowed(
    open_session: OpenSession,
) -> None:
    it = open_session(code(f"print('a')\n{WRITE}"), "Done.", approval_rules=READ_ONLY)
    it.session.submit("ask", "write it")
    approval = it.wait_approval()
    assert (approval.text, approval.why) == (f"print('a')\n{WRITE}", "wanted to write x")
    assert output(it, 1).text == "a\nstopped: wanted to write x; nothing was kept\n"
    assert not Path("x").exists()
    it.decide("run")
    assert (output(it, 2).text, output(it, 2).status) == ("a\n", "ok")
    assert Path("x").exists()
    assert approvals(it) == ["waiting", "run"]


@pytest.mark.parametrize(
    ("action", "state", "end"), [("skip", "skipped", "done"), ("stop", "stopped", "stopped")]
)
def test_code_needing_more_does_not_run_when_refused(
    open_session: OpenSession, action: str, state: str, end: str
) -> None:
    it = open_session(code("writer('x', mode)"), "Done.", approval_rules=READ_ONLY)
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "write it")
    it.decide(action)
    it.store.wait(tags.AGENT, state=end)
    assert not Path("x").exists()
    assert approvals(it) == ["waiting", state]


def test_model_learns_of_discarded_changes(open_session: OpenSession) -> None:
    it = open_session(code("items.append(2)"), "Done.", approval_rules=READ_ONLY)
    it.run("items = [1]")
    it.ask_and_wait("add it")
    assert output(it, 2).text == "ran apart: changes to `items` were not kept\n"
    assert it.value("items") == "[1]"
    assert "ran apart: changes to `items` were not kept" in it.model_messages()


def test_read_only_asks_with_the_reason_where_locking_is_impossible(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ProcessKernel,
        "lock_unavailable_reason",
        property(lambda kernel: "only Linux can lock a process"),
    )
    it = open_session(code("sum([1, 2])"), code("sum([3, 4])"), "Done.", approval_rules=READ_ONLY)
    it.session.submit("ask", "how much?")
    for block in ("sum([1, 2])", "sum([3, 4])"):
        approval = it.wait_approval(text=block)
        assert approval.why == (
            "allow: read_only cannot be enforced here: only Linux can lock a process"
        )
        it.decide("run", approval.request)
    it.store.wait(tags.AGENT, state="done")


def test_rule_denies_before_anybody_is_asked(open_session: OpenSession) -> None:
    it = open_session(
        code("import os\nos.system('touch x')"),
        "Not allowed.",
        approval_rules=("deny: os.system(*)",),
        approval="auto",
    )
    it.ask_and_wait("touch it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert refused.reason == "The user's rule deny: os.system(*) forbids it."
    assert not Path("x").exists()


def test_ask_rule_applies_in_other_modes_too(open_session: OpenSession) -> None:
    rules = ('ask: open(*, "w")',)
    it = open_session(code(WRITE), "Done.", approval_rules=rules, approval="auto")
    it.session.submit("ask", "write it")
    assert it.wait_approval().why == 'the rule ask: open(*, "w") asks'
    it.decide("run")
    assert output(it, 1).status == "ok"
    assert approvals(it) == ["waiting", "run"]


def test_a_rule_for_one_call_allows_it_and_no_other(open_session: OpenSession) -> None:
    it = open_session(
        code("create('x', 'a')"),
        code("create('y', 'a')"),
        "Done.",
        approval_rules=('allow: create("x", "a")',),
    )
    it.session.submit("ask", "write it")
    assert output(it, 1).status == "ok"
    assert it.wait_approval().text == "create('y', 'a')"
    assert Path("x").exists()


def test_code_needing_more_is_refused_when_nobody_can_be_asked(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeadlessFrontend, "can_ask", False)
    it = open_session(code(WRITE), "Done.", approval_rules=READ_ONLY)
    it.session.submit("ask", "save it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert refused.reason == "Wanted to write x, and no one is here to approve it."
    assert not Path("x").exists()


# Files that only code that the user approves may change.


@pytest.mark.sample(4)
@pytest.mark.parametrize(("block", "file"), PROTECTED_WRITES.items())
@pytest.mark.parametrize("rules", [(), ("allow: open(*)", "allow: create(*)")])
def test_code_that_names_a_protected_file_waits_for_the_user_in_any_mode(
    open_session: OpenSession, block: str, file: str, rules: tuple[str, ...]
) -> None:
    Path("AGENTS.md").write_text("mine")
    Path("link").symlink_to("AGENTS.md")
    it = open_session(code(block), "Done.", approval="auto", approval_rules=rules)
    it.session.submit("ask", "change it")
    assert it.wait_approval().why == (
        f"it may change {file}, which only code that you approve may do"
    )
    assert it.session.agent.rules.rules_for(it.wait_approval().text) == () or file == "link"
    it.decide("skip")
    it.store.wait(tags.AGENT, state="done")
    assert Path("AGENTS.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("rm AG*.md", "AGENTS.md"),
        ("cd sub; rm ../A?ENTS.md", "sub/../AGENTS.md"),
        ("mv notes other", "notes/CLAUDE.md"),
        ("rm */*/*/*/*/x", "a protected file"),
    ],
)
def test_a_command_that_names_a_protected_file_by_a_pattern_or_a_folder_waits_for_the_user(
    open_session: OpenSession, command: str, file: str
) -> None:
    Path("AGENTS.md").write_text("mine")
    Path("sub").mkdir()
    Path("notes").mkdir()
    Path("notes/CLAUDE.md").write_text("mine")
    it = open_session(code(f"!{command}"), "Done.", approval="auto")
    it.session.submit("ask", "change it")
    assert it.wait_approval().why == (
        f"it may change {file}, which only code that you approve may do"
    )
    it.decide("skip")
    it.store.wait(tags.AGENT, state="done")
    assert Path("AGENTS.md").read_text() == "mine"


def test_commands_with_patterns_for_other_files_run(open_session: OpenSession) -> None:
    Path("AGENTS.md").write_text("mine")
    Path("a.csv").write_text("1")
    it = open_session(code("!rm *.csv"), "Done.", approval="auto")
    it.ask_and_wait("remove them")
    assert approvals(it) == []
    assert not Path("a.csv").exists()


def test_no_rule_is_offered_for_a_number_that_rules_cannot_write(open_session: OpenSession) -> None:
    it = open_session(approval_rules=READ_ONLY)
    rules = it.session.agent.rules
    assert rules.rules_for("f(0xff)") == ("allow: f(255)",)
    assert rules.rules_for(f"f(0x{'f' * 5_000})") == ()
    assert rules.rules_for("f(1e999)") == ()


def test_a_command_that_does_not_show_what_it_changes_waits_for_the_user(
    open_session: OpenSession,
) -> None:
    block = "import os\nos.system('n=AGENTS; echo x > $n.md')"
    Path("AGENTS.md").write_text("mine")
    hidden = "import os\nos.system('echo x > ' + chr(36) + 'n.md')"
    it = open_session(code(block), "Done.", code(hidden), "Done.", approval="auto")
    it.session.submit("ask", "change it")
    assert it.wait_approval().why == ("it may change protected files: $n.md does not show which")
    it.decide("run")
    it.store.wait(tags.AGENT, state="done")
    assert Path("AGENTS.md").read_text() == "x\n"
    it.ask_and_wait("change it again")
    assert "$n.md does not show which" in output(it, 2).text


def test_code_without_approval_does_not_use_the_terminal(open_session: OpenSession) -> None:
    block = "import os\nos.environ['VISUAL'] = 'true'\nopen_in_editor('x')"
    it = open_session(code(block), "Done.", approval="auto")
    it.ask_and_wait("use it")
    assert "Only code that the user has approved by hand can use the terminal" in output(it, 1).text


def test_code_that_the_user_approves_changes_a_protected_file(open_session: OpenSession) -> None:
    it = open_session(code("create('AGENTS.md', 'x')"), "Done.", approval="auto")
    it.session.submit("ask", "change it")
    it.wait_approval()
    it.decide("run")
    assert output(it, 1).status == "ok"
    assert Path("AGENTS.md").read_text() == "x"


def test_code_without_approval_cannot_change_a_protected_file_by_another_way(
    open_session: OpenSession,
) -> None:
    name = "name = 'AGENTS' + '.md'\n"
    attempts = [
        f"{name}open(name, 'w')",
        f"{name}import os\nos.remove(name)",
        f"{name}import os\nos.rename(name, 'x')",
        f"{name}import os\nos.link(name, 'x')",
        f"{name}import subprocess\nsubprocess.run(['sh', '-c', f'echo x > {{name}}'])",
        f"{name}import os\nos.system(f'rm {{name}}')",
        f"{name}edit(name, 'mine', 'theirs')",
        f"{name}import threading\ngo = threading.Event()\n"
        "def later():\n    go.wait()\n    open(name, 'w')\n"
        "thread = threading.Thread(target=later); thread.start()",
    ]
    Path("AGENTS.md").write_text("mine")
    replies = [reply for attempt in attempts for reply in (code(attempt), "Done.")]
    it = open_session(*replies, approval="auto")
    for _ in attempts:
        it.ask_and_wait("change it")
    assert "AGENTS.md is protected" in it.value("go.set(); thread.join()")
    assert approvals(it) == []
    assert Path("AGENTS.md").read_text() == "mine"
    texts = [record.text for record in it.store.of(tags.ASSISTANT_REPL_OUT)]
    assert all("AGENTS.md is protected: only code that the user" in text for text in texts[:-1])
    it.run(f"{name}open(name, 'w').close()")
    assert Path("AGENTS.md").read_text() == ""


def test_a_shell_command_that_only_reads_a_protected_file_runs(open_session: OpenSession) -> None:
    Path("AGENTS.md").write_text("mine")
    run = "import subprocess\nsubprocess.run({}, shell=True, capture_output=True).stdout"
    hidden_rm = "subprocess.run(['cat', name], executable='rm')"
    replies = [
        code(run.format("'cat AGENTS.md'")),
        "Done.",
        code("name = 'AGENTS' + '.md'\n" + run.format("f'cat {name}'")),
        "Done.",
        code(hidden_rm),
        "Done.",
    ]
    it = open_session(*replies, approval="auto")
    for _ in range(3):
        it.ask_and_wait("show it")
    assert approvals(it) == []
    texts = [record.text for record in it.store.of(tags.ASSISTANT_REPL_OUT)]
    assert texts[:2] == ["b'mine'\n", "b'mine'\n"]
    assert "AGENTS.md is protected" in texts[2]
    assert Path("AGENTS.md").read_text() == "mine"


def test_code_in_a_plan_reads_protected_files_without_a_question(open_session: OpenSession) -> None:
    Path("AGENTS.md").write_text("mine")
    it = open_session(code("text = open('AGENTS.md').read()\ntext"), "A plan.")
    it.session.info.set_planning(True)
    it.ask_and_wait("plan")
    assert output(it, 1).text == "'mine'\nran apart: text was not kept\n".replace("text", "`text`")
    assert approvals(it) == []


def test_a_rule_does_not_allow_a_name_that_read_only_code_has_bound(
    open_session: OpenSession,
) -> None:
    rules = ("allow: read_only", "allow: summarize(*)", "allow: other(*)")
    it = open_session(
        code("del summarize"),
        code("from subprocess import Popen as other"),
        code("other('touch made', shell=True)"),
        code("summarize('x')"),
        "Done.",
        approval_rules=rules,
    )
    it.run("def summarize(text): return 'short'")
    it.session.submit("ask", "go on")
    assert it.wait_approval(text="del summarize").why == "wanted to delete summarize"
    it.decide("skip")
    approval = it.wait_approval(text="other('touch made', shell=True)")
    words = "its own words: wanted to start /bin/sh -c touch made"
    assert approval.why == f"wanted to make a process, which Linux refused; {words}"
    it.decide("skip", approval.request)
    it.store.wait(tags.AGENT, state="done")
    assert not Path("made").exists()
    assert [record.text for record in it.store.of(tags.ASSISTANT_REPL_OUT)][-1] == "'short'\n"


def permission(it: Opened, code: str) -> Permission:
    return it.session.agent.rules.permission(CodeRequest(code, "demo", private=(), trusted=False))


def test_a_rule_does_not_allow_a_function_of_which_unapproved_code_has_changed_something(
    open_session: OpenSession,
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    reasons = {}
    for change in CHANGES:
        it.run("globals().pop('len', None)", SUMMARIZE)
        assert permission(it, "summarize('x')") == ("allow", "")
        it.session.cells.run(change, origin="assistant", party="demo", lock="guard")
        reasons[change] = permission(it, "summarize('x')")
    start = "code that you have not approved has changed "
    assert reasons == {
        change: ("ask", f"{start}{name}{'' if name == 'summarize' else ', which summarize uses'}")
        for change, name in CHANGES.items()
    }


def test_a_rule_does_not_allow_the_builtin_of_a_name_that_unapproved_code_has_deleted(
    open_session: OpenSession,
) -> None:
    it = open_session(approval_rules=("allow: open(*)",))
    it.run("def open(path): return 'mine'")
    assert permission(it, "open('x')") == ("allow", "")
    it.session.cells.run("del open", origin="assistant", party="demo", lock="guard")
    reason = "code that you have not approved has changed open"
    assert permission(it, "open('x')") == ("ask", reason)
    it.run("def open(path): return 'mine'")
    assert permission(it, "open('x')") == ("allow", "")
    it.run("del open")
    assert permission(it, "open('x')") == ("allow", "")


def test_a_rule_does_not_allow_a_function_of_which_not_all_can_be_looked_at(
    open_session: OpenSession,
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    it.run("table = list(range(100_000))\ndef summarize(x): return table")
    assert permission(it, "summarize('x')") == ("allow", "")
    it.run("table = list(range(3_000_000))")
    reason = "summarize uses too many objects to look at"
    assert permission(it, "summarize('x')") == ("ask", reason)


RAISES_AT_ITS_END = """\
import signal, sys, threading, time
ended = threading.Event()
main_thread = threading.main_thread().ident
def list_functions():
    frame = sys._current_frames()[main_thread]
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back
def go_on():
    functions = {'_run_cell'}
    while '_run_cell' in functions and '_has_left' not in functions:
        time.sleep(0.001)
        functions = {*list_functions()}
    if '_has_left' in functions: signal.pthread_kill(main_thread, signal.SIGALRM)
    ended.wait()
def fail(*args):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise SystemExit
signal.signal(signal.SIGALRM, fail)
threading.Thread(target=go_on, daemon=True).start()"""
"""Code that leaves a thread, and raises an exception while the kernel looks for what it has left."""

LEFT_RUNNING = {
    "thread": "import threading\nended = threading.Event()\nthreading.Thread(target=ended.wait, daemon=True).start()",
    "timer": "import threading\ntimer = threading.Timer(1000, print)\ntimer.daemon = True\ntimer.start()",
    "unnamed thread": "import _thread\nheld = _thread.allocate_lock()\nheld.acquire()\n_thread.start_new_thread(lambda lock: lock.acquire(), (held,))",
    "task": "import asyncio\ntask = asyncio.create_task(asyncio.sleep(1000))",
    "callback": "import asyncio\nhandle = asyncio.get_event_loop().call_later(1000, print)",
    "callback of each round": "import asyncio\nloop = asyncio.get_event_loop()\ndef go_on(): loop.call_soon(go_on)\ngo_on()",
    "callback of a descriptor": "import asyncio, os\nasyncio.get_event_loop().add_reader(os.pipe()[0], print)",
    "task that asyncio hides": "import asyncio\nall_tasks = asyncio.all_tasks\nasyncio.all_tasks = lambda loop=None: set()\ntask = asyncio.create_task(asyncio.sleep(1000))",
    "thread that threading hides": "import threading\nlist_threads = threading.enumerate\nthreading.enumerate = None\nended = threading.Event()\nthreading.Thread(target=ended.wait, daemon=True).start()",
    "loop that cannot be read": "import asyncio\nloop = asyncio.get_event_loop()\nloop._ready = None",
    "worker": "import concurrent.futures, threading\nended = threading.Event()\npool = concurrent.futures.ThreadPoolExecutor()\nfuture = pool.submit(ended.wait)",
    "signal handler": "import signal\nsignal.signal(signal.SIGUSR1, lambda *args: None)",
    "thread, and a signal handler that raises": RAISES_AT_ITS_END,
    "loop that exits": "import asyncio, sys\nloop = asyncio.get_event_loop()\nloop.is_closed = sys.exit",
    "callback of a thread that has ended": "import asyncio, threading\nloop = asyncio.get_event_loop()\ndef go_on(): loop.call_soon(go_on)\nthread = threading.Thread(target=loop.call_soon_threadsafe, args=(go_on,))\nthread.start()\nthread.join()",
    "future that calls": "import asyncio\nloop = asyncio.get_event_loop()\nfuture = loop.create_future()\nfuture.add_done_callback(print)\nhandle = loop.call_later(1000, asyncio.futures._set_result_unless_cancelled, future, None)",
    "object in the place of a future": "import asyncio\nclass Hostile: cancelled = print\nloop = asyncio.get_event_loop()\nhandle = loop.call_later(1000, asyncio.futures._set_result_unless_cancelled, Hostile(), None)",
    "method of a task": "import asyncio\nloop = asyncio.get_event_loop()\ndef go_on(task): loop.call_soon(task.set_name, Name(task))\nclass Name:\n    def __init__(self, task): self.task = task\n    def __str__(self): go_on(self.task); return 'name'\ntask = [*asyncio.all_tasks(loop)][:1] or [loop.create_task(asyncio.sleep(1000))]\ngo_on(task[0])",
    "worker of a library's file": "import concurrent.futures.thread, queue, threading\nscope = {}\nexec(compile('def _worker(work_queue, lock): lock.acquire()', concurrent.futures.thread.__file__, 'exec'), scope)\nlock = threading.Lock()\nlock.acquire()\nthreading.Thread(target=scope['_worker'], args=(queue.SimpleQueue(), lock), daemon=True).start()",
    "progress bar that writes to an object": "import io, tqdm\nclass Hostile(io.StringIO): pass\nbar = tqdm.tqdm(range(3), file=Hostile())",
    "monitor of another class": "import tqdm\nfrom tqdm._monitor import TMonitor\nclass Hostile(TMonitor): pass\nHostile.__module__ = 'tqdm._monitor'\nmonitor = Hostile(tqdm.tqdm, 1000)",
}
"""Code that leaves something running, which may change a function later."""

LEFT_IDLE = {
    "worker": "import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor()\nassert pool.submit(len, 'a').result() == 1",
    "worker of asyncio": "import asyncio\nassert await asyncio.to_thread(len, 'a') == 1",
    "thread that ends": "import threading\nthreading.Timer(0.02, len, 'a').start()",
    "progress bar": "import tqdm\nassert list(tqdm.tqdm(range(3))) == [0, 1, 2]",
    "unnamed thread that ends": "import _thread\n_thread.start_new_thread(len, ('a',))",
    "worker of asyncio in a task that ends": "import asyncio\nasync def go():\n    for _ in range(3): await asyncio.to_thread(len, 'a')\nassert await asyncio.create_task(go()) is None",
}
"""Code that leaves nothing that runs later by itself."""


@pytest.mark.sample(2)
@pytest.mark.parametrize("code", LEFT_RUNNING.values(), ids=LEFT_RUNNING)
def test_no_rule_for_a_function_holds_after_unapproved_code_has_left_something_running(
    open_session: OpenSession, code: str
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    it.run(SUMMARIZE, code)
    assert permission(it, "summarize('x')") == ("allow", "")
    it.session.cells.run("x = 1", origin="assistant", party="demo", lock="guard")
    assert permission(it, "summarize('x')") == ("allow", "")
    it.session.cells.run(
        code.replace("ended", "other"), origin="assistant", party="demo", lock="guard"
    )
    it.run(SUMMARIZE)
    reason = "code that you have not approved (cell 4) went on after its cell, and may have changed what summarize does"
    assert permission(it, "summarize('x')") == ("ask", reason)


@pytest.mark.parametrize("code", LEFT_IDLE.values(), ids=LEFT_IDLE)
def test_a_rule_for_a_function_holds_after_unapproved_code_has_left_idle_threads(
    open_session: OpenSession, code: str
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    it.run(SUMMARIZE)
    cell = it.session.cells.run(code, origin="assistant", party="demo", lock="guard")
    assert (cell.status, permission(it, "summarize('x')")) == (Status.OK, ("allow", ""))


def test_a_rule_for_a_function_holds_after_unapproved_code_was_interrupted(
    open_session: OpenSession,
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    it.run(SUMMARIZE)
    it.session.cells.run("x = 1", origin="assistant", party="demo", lock="guard")

    def interrupt() -> None:
        wait_for(Path("on").exists)
        it.session.kernel.interrupt()

    interrupting = start_thread("interrupt", interrupt)
    endless = "open('on', 'w').close()\nwhile True: pass"
    cell = it.session.cells.run(endless, origin="assistant", party="demo", lock="guard")
    interrupting.join()
    assert (cell.status, permission(it, "summarize('x')")) == (Status.INTERRUPTED, ("allow", ""))


BACKGROUND_WORK = {
    "sleep": "while True: await asyncio.sleep(0)",
    "gather": "while True: await asyncio.gather(one(), one())",
    "to_thread": "while True: await asyncio.to_thread(len, 'a')",
    "wait_for": "while True: await asyncio.wait_for(one(), 10)",
    "callbacks": "tick()",
    "task of a thread": "threading.Thread(target=asyncio.run_coroutine_threadsafe, args=(rest(0.001), loop)).start()",
    "task without a context": "task = contextvars.Context().run(loop.create_task, rest(0))",
    "server": "server = await asyncio.start_server(serve, '127.0.0.1', 0)\n    address = server.sockets[0].getsockname()\n    while True:\n        reader, writer = await asyncio.open_connection(*address)\n        await reader.read()\n        writer.close()",
}
"""Bodies of a coroutine that goes on between cells."""

BACKGROUND_PARTS = """\
import asyncio, contextvars, threading
loop = asyncio.get_event_loop()
async def rest(seconds):
    while True: await asyncio.sleep(seconds)
def tick(): loop.call_soon(tick)
async def one(): await asyncio.sleep(0.001)
async def serve(reader, writer): writer.close()
async def go():
    {body}
task = asyncio.create_task(go())"""


@pytest.mark.parametrize("body", BACKGROUND_WORK.values(), ids=BACKGROUND_WORK)
def test_a_rule_for_a_function_holds_beside_work_that_the_user_has_left_running(
    open_session: OpenSession, body: str
) -> None:
    it = open_session(approval_rules=("allow: summarize(*)",))
    it.run(SUMMARIZE, BACKGROUND_PARTS.format(body=body))
    for _ in range(5):
        for source in ("x = 1", "import asyncio\nawait asyncio.sleep(0.01)"):
            it.session.cells.run(source, origin="assistant", party="demo", lock="guard")
            assert permission(it, "summarize('x')") == ("allow", "")


def test_what_a_cell_has_changed_is_reported_though_a_signal_handler_raises_after_it(
    open_session: OpenSession,
) -> None:
    it = open_session()
    source = RAISES_AT_ITS_END + "\nx = 1"
    cell = it.session.cells.run(source, origin="assistant", party="demo", lock="guard")
    assert cell.status is Status.OK
    assert "x" in {change.name for change in cell.changes}


def test_unapproved_code_that_replaces_what_lists_threads_runs_and_its_changes_are_reported(
    open_session: OpenSession,
) -> None:
    it = open_session()
    code = "import threading\nthreading.enumerate = None\nx = 1"
    cell = it.session.cells.run(code, origin="assistant", party="demo", lock="guard")
    names = {change.name for change in cell.changes}
    assert (cell.status, names) == (Status.OK, {"threading", "x"})
    cell = it.session.cells.run("x + 1", origin="assistant", party="demo", lock="guard")
    assert (cell.status, cell.output) == (Status.OK, "2\n")


def test_the_question_says_why_a_rule_does_not_apply(open_session: OpenSession) -> None:
    rules = ("allow: summarize(*)",)
    replies = [code("summarize('x')"), "Done.", code("helper = print"), "Done."]
    it = open_session(*replies, *replies[:2], approval_rules=rules)
    it.run(SUMMARIZE)
    it.ask_and_wait("use it")
    assert approvals(it) == []
    it.session.info.set_approval("auto")
    it.ask_and_wait("change it")
    it.session.info.set_approval("ask")
    it.session.submit("ask", "use it again")
    reason = "code that you have not approved has changed helper, which summarize uses"
    assert it.wait_approval().why == reason
    it.decide("skip")
    it.store.wait(tags.AGENT, state="done", turn=it.session.agent.last)


def start_agent_cell(it: Opened, code: str) -> Future[Any]:
    serve = it.join_agent()
    done = Future[Any]()
    start_thread("agent", lambda: done.set_result(serve("evaluate", code=code)))
    return done


def test_agent_code_follows_the_same_rules(open_session: OpenSession) -> None:
    it = open_session(approval_rules=("allow: read_only", "deny: os.system(*)"))
    assert start_agent_cell(it, "import os\nos.system('touch x')").result(60)["declined"] == (
        "declined: the user's rule deny: os.system(*) forbids it"
    )
    assert "'output': '1\\n'" in str(start_agent_cell(it, "print(1)").result(60)["result"])
    assert approvals(it) == []
    running = start_agent_cell(it, f"print(1)\n{WRITE}")
    approval = it.wait_approval()
    assert (approval.party, approval.why) == ("codex-3", "wanted to write x")
    it.decide("skip")
    assert running.result(60)["declined"]
    assert not Path("x").exists()


# Plan mode: the model only reads, and its answer is the plan.


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "replay" not in path.name
    }


def plan(it: Opened, *setup: str) -> None:
    it.run(*setup)
    it.session.info.set_planning(True)
    it.session.submit("ask", "plan it")


@pytest.mark.sample(3)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_plan_turn_changes_neither_namespace_nor_files(
    open_session: OpenSession, project: Path, hostile: str
) -> None:
    it = open_session(code(hostile), code("len(items)"), PROPOSED, approval="auto")
    (project / "data").write_text("data")
    it.run(SETUP)
    digest_before = it.value(DIGEST)
    files_before = files(project)
    plan(it)
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    wait_for(lambda: not it.session.agent.in_turn)
    it.run("import asyncio; await asyncio.sleep(0.15); del asyncio")
    assert it.value(DIGEST) == digest_before
    assert files(project) == files_before
    assert "waiting" not in approvals(it)


def test_read_only_code_runs_while_the_model_plans(open_session: OpenSession) -> None:
    it = open_session(code("total = sum(items)\ntotal"), PROPOSED)
    plan(it, "items = [1, 2]")
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "3\nran apart: `total` was not kept\n"
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    it.store.wait(tags.NOTICE, "/plan run carries out this plan. /plan ends planning.")
    assert it.value("'total' in globals()") == "False"


@pytest.mark.parametrize("is_planning", [True, False])
def test_plan_is_offered_only_below_steps_that_were_asked_for(
    open_session: OpenSession, is_planning: bool
) -> None:
    it = open_session("There is nothing to do." if is_planning else PROPOSED)
    if is_planning:
        plan(it)
    else:
        it.session.submit("ask", "what would you do?")
    it.store.wait(tags.ASSISTANT_CHAT)
    wait_for(lambda: it.session.inbox.idle and not it.session.agent.in_turn)
    assert not [text for text in texts(it, tags.NOTICE) if "carries out this plan" in text]


def test_plan_code_needing_more_is_refused_with_the_reason(open_session: OpenSession) -> None:
    it = open_session(code(WRITE), PROPOSED, undo_steps=0)
    plan(it)
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert refused.reason.endswith("This code may not run yet: wanted to write x.")
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    assert not Path("x").exists()


# The approval mode review: the model's code runs at once, and its changes wait until the user keeps
# or undoes them.


def open_review(open_session: OpenSession, *answers: Any, **options: Any) -> Opened:
    """Ask a model whose changes are reviewed."""
    it = open_session(*answers, approval="review", **options)
    it.run("items = [1]; old = 1")
    it.session.submit("ask", "change it")
    return it


def wait_review(it: Opened, *cells: int) -> Any:
    return it.store.wait(tags.REVIEW, state="waiting", cells=list(cells or (2,)))


def end(it: Opened, state: str = "done") -> None:
    it.store.wait(tags.AGENT, state=state)
    wait_for(lambda: not it.session.agent.in_turn)


def reviews(it: Opened) -> list[str]:
    return [record.state for record in it.store.of(tags.REVIEW)]


def test_reviewed_changes_are_shown_and_accepted(open_session: OpenSession) -> None:
    it = open_review(open_session, APPEND, "Done.")
    review = wait_review(it)
    one_item = Variable("items", "list", "1 item", "data")
    two_items = Variable("items", "list", "2 items", "data")
    assert sorted(review.changes, key=lambda change: change.name) == [
        Change("items", "changed", two_items, one_item),
        Change("new", "added", Variable("new", "str", "'three'", "data")),
        Change("old", "deleted", None, Variable("old", "int", "1", "data")),
    ]
    assert review.not_restored == ()
    with pytest.raises(Exception, match="Something is running"):
        it.session.undo.undo(2)
    it.decide("keep", review.request)
    end(it)
    assert reviews(it) == ["waiting", "kept"]
    assert it.value("items, new, 'old' in globals()") == "([1, 2], 'three', False)"
    assert not it.store.of(tags.APPROVAL) + it.store.of(tags.USER_UNDO)


def test_undone_changes_are_reported_to_the_model_and_later_blocks_skipped(
    open_session: OpenSession,
) -> None:
    expected = r"The user undid this code \(block 1\) after it had run: not so(.|\n)*Block 2 of your code was not run, because the one before it was undone"
    it = open_review(open_session, TWO, {"text": "Then not.", "match": expected})
    it.decide("undo", wait_review(it).request, reason="not so")
    end(it)
    it.store.wait(tags.ASSISTANT_CHAT, text="Then not.")
    assert reviews(it) == ["waiting", "undone"]
    assert it.store.wait(tags.USER_UNDO).cells == (2,)
    assert it.value("items") == "[1]"
    transcript = Transcript(0.0)
    transcript.fold(it.store.records)
    cells = [entry for entry in transcript.entries if isinstance(entry, Cell)]
    assert [cell.undone for cell in cells if cell.number == 2] == [True]


def test_each_block_is_reviewed_and_keep_all_ends_reviews(open_session: OpenSession) -> None:
    it = open_review(open_session, TWO, "Done.")
    it.decide("all", wait_review(it).request)
    end(it)
    assert (reviews(it), it.session.info.approval) == (["waiting", "kept"], "auto")
    assert it.value("items") == "[1, 2, 3]"


@pytest.mark.parametrize("in_the_row", [True, False])
def test_stop_keeps_the_changes_which_can_still_be_undone(
    open_session: OpenSession, in_the_row: bool
) -> None:
    it = open_review(open_session, TWO, "Not this answer.")
    request = wait_review(it).request
    if in_the_row:
        it.decide("stop", request)
    else:
        assert it.session.stop() == "model"
    end(it, "stopped")
    assert reviews(it) == ["waiting", "stopped"]
    assert it.value("items") == "[1, 2]"
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"


@pytest.mark.parametrize("block", ["1 + 1", "print(len(items))", "items[:]"])
def test_cell_without_changes_needs_no_review(open_session: OpenSession, block: str) -> None:
    it = open_review(open_session, code(block), "Done.")
    end(it)
    assert reviews(it) == []


def test_external_side_effects_are_named_in_the_review(open_session: OpenSession) -> None:
    hidden = "import os\ngetattr(os, 'mk' + 'dir')('made')"
    it = open_review(open_session, code(hidden), "Done.")
    review = wait_review(it)
    assert [(entry.name.rpartition("/")[2], entry.reason) for entry in review.not_restored] == [
        ("made", "this folder was created and stays")
    ]
    it.decide("keep", review.request)
    end(it)


def test_cell_run_meanwhile_is_shown_before_both_are_undone(open_session: OpenSession) -> None:
    it = open_review(open_session, APPEND, "Then not.")
    request = wait_review(it).request
    it.run("mine = 5")
    it.decide("undo", request)
    review = wait_review(it, 2, 3)
    assert "mine" in [row.name for row in review.changes]
    assert it.value("mine") == "5", "nothing was undone yet"
    it.decide("undo", request)
    wait_review(it, 2, 3, 4)
    it.decide("undo", request)
    end(it)
    assert it.value("items, 'mine' in globals()") == "([1], False)"


def test_undo_during_another_cell_is_refused_and_asks_again(open_session: OpenSession) -> None:
    it = open_review(open_session, APPEND, "Done.")
    request = wait_review(it).request
    it.session.submit("python", "import time\ntime.sleep(600)")
    it.store.wait(tags.USER_REPL_IN, cell=3)
    it.decide("undo", request)
    review = wait_review(it, 2, 3)
    assert review.changes == ()
    assert review.not_restored[0].reason.startswith("The changes are unknown. A cell is running.")
    it.decide("undo", request)
    it.store.wait(tags.NOTICE, level="error")
    it.decide("keep", request)
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]
    wait_for(it.session.kernel.interrupt)
    it.store.wait(tags.USER_REPL_OUT, cell=3)
    assert it.value("items") == "[1, 2]"


def check_asks_first(it: Opened, reason: str) -> None:
    assert it.wait_approval().why == reason
    it.decide("run")


def test_all_code_asks_first_when_undo_is_off(open_session: OpenSession) -> None:
    it = open_review(open_session, APPEND, "Done.", undo_steps=0)
    check_asks_first(it, "undo is off (undo_steps is 0)")
    end(it)
    assert reviews(it) == []


def test_code_awaited_by_a_cell_asks_first(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    it.run("items = [1]; old = 1")
    it.session.submit("python", "answer = ask('change it')")
    check_asks_first(it, "another cell waits for this answer")
    it.store.wait(tags.USER_REPL_OUT, cell=2)


def test_in_process_kernel_asks_first(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run"))
    recorded_session.host.info.approval = "review"
    recorded_session.run(code("a = 1"), {"text": "Done."}, reflection="never")
    assert (
        recorded_session.of(tags.APPROVAL)[0].attrs["why"]
        == "the kernel cannot be forked, because it runs inside the program that opened this session"
    )
    assert recorded_session.namespace["a"] == 1


def test_kernel_reset_during_a_review_leaves_nothing_to_undo(open_session: OpenSession) -> None:
    it = open_review(open_session, APPEND, "Done.")
    request = wait_review(it).request
    it.session.kernel.reset()
    it.decide("undo", request)
    it.store.wait(tags.NOTICE, level="error")
    it.decide("keep", request)
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]


def test_agent_code_asks_first(open_session: OpenSession) -> None:
    it = open_session(approval="review")
    it.run("items = [1]")
    answer = start_agent_cell(it, "items.append(2)")
    check_asks_first(it, "changes of agents are not reviewed afterwards")
    assert answer.result(60)
    assert reviews(it) == []
