"""A `claude` for the PATH of tests: replays recordings, or speaks the CLI's protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).with_name("recordings")

_SCRIPT = """\
#!{python}
import json, os, signal, sys, time

CONFIG = json.load(open({config!r}))
LOG = open({log!r}, "a")


def log(**what):
    LOG.write(json.dumps(what) + "\\n")
    LOG.flush()


def say(event):
    sys.stdout.write(json.dumps(event) + "\\n")
    sys.stdout.flush()


def answer(text, cost):
    say({{"type": "system", "subtype": "init", "model": "fake-model", "apiKeySource": CONFIG.get("key_source", "none")}})
    usage = {{"input_tokens": 10, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 5}}
    for word in text.split(" "):
        delta = {{"type": "text_delta", "text": word + " "}}
        say({{"type": "stream_event", "event": {{"type": "content_block_delta", "index": 0, "delta": delta}}}})
    message = {{"model": "fake-model", "role": "assistant", "content": [{{"type": "text", "text": text}}]}}
    say({{"type": "assistant", "message": message}})
    say({{"type": "stream_event", "event": {{"type": "message_delta", "delta": {{"stop_reason": "end_turn"}}, "usage": usage}}}})
    say({{"type": "result", "subtype": "success", "is_error": False, "result": text, "total_cost_usd": cost, "usage": usage}})


if "--version" in sys.argv:
    print("2.1.329 (Claude Code)")
    sys.exit(0)
if CONFIG["behaviour"] == "too old":
    sys.exit("error: unknown option '--safe-mode'")
if sys.argv[-2:] == ["auth", "status"]:
    log(auth=sys.argv[1:-2], keys=[name for name in os.environ if name.startswith("ANTHROPIC")])
    print(CONFIG.get("auth", "no JSON"))
    sys.exit(0)
system_file = sys.argv[sys.argv.index("--system-prompt-file") + 1]
keys = [name for name in os.environ if name.startswith("ANTHROPIC")]
flags = {{name: os.environ.get(name) for name in CONFIG["watched"]}}
log(argv=sys.argv[1:], cwd=os.getcwd(), keys=keys, env=flags, pid=os.getpid(), sid=os.getsid(0), system=open(system_file).read())
if CONFIG["behaviour"] == "deaf":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
turn = 0
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        log(control=message["request"]["subtype"])
        if CONFIG["behaviour"] == "streams":
            say({{"type": "result", "subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_streaming", "total_cost_usd": 0.5, "usage": {{}}}})
        continue
    content = message["message"]["content"]
    if not isinstance(content, str):
        log(blocks=content)
        content = "".join(block.get("text", "") for block in content)
    log(prompt=content[-2000:], size=len(content), composed=message.get("client_composed"))
    turn += 1
    behaviour = CONFIG["behaviour"]
    if behaviour == "answers":
        texts = CONFIG["answers"]
        answer(texts[min(turn, len(texts)) - 1], turn * 0.25)
    elif behaviour == "recording":
        for recorded in open(CONFIG["recording"]):
            sys.stdout.write(recorded)
        sys.stdout.flush()
        if CONFIG.get("exits"):
            sys.exit(1)
    elif behaviour == "events":
        for event in CONFIG["turns"][turn - 1]:
            sys.stdout.write(event + "\\n") if isinstance(event, str) else say(event)
    elif behaviour in ("streams", "deaf"):
        say({{"type": "stream_event", "event": {{"type": "content_block_delta", "index": 0, "delta": {{"type": "text_delta", "text": "begun "}}}}}})
    elif behaviour == "dies":
        sys.stderr.write("the ground opened\\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
if CONFIG["behaviour"] in ("streams", "deaf"):
    time.sleep(1000)  # like the real one, which answers to the end although its reader is gone
"""

WATCHED = (
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
)


class FakeClaude:
    """A `claude` in a folder, and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log.jsonl"

    @property
    def received(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(True) if self._log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def starts(self) -> list[dict[str, Any]]:
        return [entry for entry in self.received if "argv" in entry]

    @property
    def prompts(self) -> list[str]:
        return [entry["prompt"] for entry in self.received if "prompt" in entry]


def install_fake_claude(folder: Path, behaviour: str, **options: Any) -> FakeClaude:
    """Put a `claude` into a folder. behaviour: answers (answers=[…]), recording (recording=NAME,
    exits=bool), events (turns=[[event, …], …]), streams (until it is interrupted), deaf (to
    interrupts and signals), dies, silent, too old (for safe mode). auth: output of `claude auth
    status`."""
    folder.mkdir(parents=True, exist_ok=True)
    if "recording" in options:
        options["recording"] = str(RECORDINGS / f"{options['recording']}.jsonl")
    config = folder / "config.json"
    config.write_text(json.dumps({"behaviour": behaviour, "watched": WATCHED, **options}))
    script = folder / "claude"
    script.write_text(
        _SCRIPT.format(python=sys.executable, config=str(config), log=str(folder / "log.jsonl"))
    )
    script.chmod(0o755)
    return FakeClaude(folder)


InstallClaude = Callable[..., FakeClaude]
"""Fixture with the arguments of `install_fake_claude`, without the folder."""
