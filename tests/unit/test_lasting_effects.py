"""What code does outside the kernel, by its text."""

from __future__ import annotations

import warnings

import pytest

from mahtab_tui.session.lasting_effects import lasting_effect, tools_of_searches

LASTING = {
    "open('x', 'w')": "open",
    "open('x', mode='a')": "open",
    "open('x', some_mode)": "open",
    "open(*where)": "open",
    "open('x', **how)": "open",
    "from pathlib import Path\nPath('x').open('w')": ".open",
    "import gzip\ngzip.open('x', 'wb')": ".open",
    "df.to_csv('x.csv')": ".to_csv",
    "plt.savefig('x.png')": ".savefig",
    "import subprocess as s": "subprocess",
    "from subprocess import run": "subprocess.run",
    "from os import remove": "os.remove",
    "from os import *": "os.*",
    "os.system('ls')": "os.system",
    "os.execv('ls', [])": "os.execv",
    "import urllib.request": "urllib.request",
    "from urllib import request": "urllib.request",
    "requests.get(url)": "requests",
    "def later():\n    shutil.rmtree('x')": "shutil",
    "exec(text)": "exec",
    "await client.send(1)": ".send",
    "rlm('which?', text, tools=[pay])": "a function given to rlm()",
    "await mahtab_tui.arlm('which?', text, **options)": "a function given to rlm()",
    "!pip install x": "a line that is not plain Python",
    "%cd /": "a line that is not plain Python",
    "x = 1 +": "a line that is not plain Python",
    "(" * 5_000: "a line that is not plain Python",
    "-" * 100_000 + "1": "a line that is not plain Python",
    "x = '\0'\0": "a line that is not plain Python",
}
NOT_LASTING = [
    "",
    "1 + 1",
    "import os, urllib.parse\nos.path.join(os.getcwd(), os.environ['HOME'])",
    "open('x').read() + open('x', 'rb').read().decode() + open('x', mode='r').read()",
    "Path('x').read_text()\nPath('x').open().close()\nPath('x').open('r').close()",
    "import re\nre.compile('x').sub('y', text).replace('a', 'b')",
    "df = df.rename(columns={'a': 'b'}).drop(columns='c')\ndf.eval('a + b')",
    "items.append(1)\nsignal = np.sin(t)",
    "await something",
    "rlm('which?', text, max_turns=3)\nlayout(tools=['pan', 'zoom'])",
]


@pytest.mark.parametrize(("code", "effect"), LASTING.items())
def test_what_lasts_is_named_as_it_is_written(code: str, effect: str) -> None:
    assert lasting_effect(code) == effect


@pytest.mark.parametrize("code", NOT_LASTING)
def test_what_undo_takes_back_is_not_named(code: str) -> None:
    assert lasting_effect(code) == ""


def test_code_that_python_would_warn_about_warns_nobody() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert lasting_effect("'\\d' is 1") == ""
    assert caught == []


@pytest.mark.parametrize(
    ("code", "tools"),
    [
        ("x = rlm('which?', text, tools=[pay, bank.transfer])\nawait arlm('who?', text, tools=mine)", "[pay, bank.transfer], mine"),
        ("rlm('which?', text)\ntools = [pay]", ""),
        ("layout(tools=[pay])", ""),
        ("rlm('which?', text, tools=[pay]", ""),
        (f"rlm('which?', text, tools=[{'pay, ' * 50}])", "[" + "pay, " * 15 + "pay,…"),
    ],
)
def test_functions_that_a_search_may_call_are_named(code: str, tools: str) -> None:
    assert tools_of_searches(code) == tools
