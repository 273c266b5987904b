"""Settings: their sources in order, errors, and MCP servers."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from mahtab_tui.cli.main import app
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import Settings, SettingsError, load_settings
from mahtab_tui.settings.sources import REMOVED_KEYS, find_origin
from mahtab_tui.settings.values import parse_assignments
from tests.config_files import config_file, toml
from tests.servers import configure
from tests.trust import trust_project
from tests.waiting import run_python

SOURCES = ("command line", "environment", ".env", "project", "person")
NUMBERS = range(len(SOURCES))
VALUES: dict[str, list[Any]] = {
    "theme": [f"value-{number}" for number in NUMBERS],
    "skills_dir": [f"folder-{number}" for number in NUMBERS],
    "max_turns": [30 + number for number in NUMBERS],
    "reload": [number % 2 == 0 for number in NUMBERS],
    "api_keys": [{"openai": f"key-{number}"} for number in NUMBERS],
    "mcp": [{"one": {"command": f"program-{number}"}} for number in NUMBERS],
}
"""A value from each source for a setting of each type."""

GONE = "which this program no longer knows; you can delete it there."


def refusal() -> str:
    """Load settings, and return the error."""
    with pytest.raises(SettingsError) as raised:
        load_settings()
    return str(raised.value)


def plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain_value(child) for name, child in value.items()}
    if isinstance(value, McpServer):
        return value.model_dump(exclude_defaults=True)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return str(value) if isinstance(value, Path) else value


def give(
    key: str, source: str, value: Any, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Set a value in a source, and return arguments for the command line."""
    text = json.dumps(value) if isinstance(value, dict | bool) else str(value)
    if source == "command line":
        return {key: value}
    if source == "environment":
        monkeypatch.setenv(f"MAHTAB_{key.upper()}", text)
    elif source == ".env":
        (project / ".env").write_text(f"OTHER=1\nMAHTAB_{key.upper()}={text!r}\n")
    else:
        folder = project if source == "project" else home
        config_file(folder, f"# One\n{key} = {toml(value)}\n")
    trust_project()
    return {}


@pytest.mark.parametrize("key", VALUES)
def test_sources_of_each_setting_override_in_order(
    key: str, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in NUMBERS:
        (project / f"folder-{number}").mkdir()
    default = plain_value(getattr(load_settings(), key))
    assert find_origin(Settings, key, {}) == ("default", None)
    names = {"environment": f"MAHTAB_{key.upper()}"}
    files = {
        name: folder / ".mahtab" / "config.toml"
        for name, folder in {"project": project, "person": home}.items()
    }
    previous_value = default
    # From the last source to the first, so that each overrides all others.
    for source, value in reversed(list(zip(SOURCES, VALUES[key], strict=True))):
        arguments = give(key, source, value, project, home, monkeypatch)
        effective = plain_value(getattr(load_settings(**arguments), key))
        assert (effective, effective != previous_value) == (value, True), source
        file = files.get(source)
        origin = str(file) if file else names.get(source, source)
        assert find_origin(Settings, key, arguments) == (origin, file)
        previous_value = effective


def test_empty_variable_is_ignored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHTAB_MAX_TURNS", "")
    (project / ".env").write_text("MAHTAB_MODEL=\n")
    settings = load_settings()
    assert (settings.max_turns, settings.model) == (40, None)


def test_tables_of_several_sources_are_merged_with_a_source_per_entry(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = config_file(home, '[keymap]\nhelp = "f11"\njump = "f12"\n')
    project_file = config_file(project, 'model = "demo"\nkeymap.help = "f1"\n')
    trust_project()
    monkeypatch.setenv("MAHTAB_KEYMAP", '{"quit": "f4"}')
    assert load_settings().keymap == {"help": "f1", "jump": "f12", "quit": "f4"}
    sources = [find_origin(Settings, f"keymap.{name}", {}) for name in ("help", "jump", "quit")]
    assert [source.text for source in sources] == [str(project_file), str(person), "MAHTAB_KEYMAP"]
    assert sources[1].file == person


def test_provider_keys_use_their_usual_env_names_and_are_never_shown(
    project: Path, home: Path
) -> None:
    (project / ".env").write_text("export OPENAI_API_KEY=sk-secret-1\nMAHTAB_MODEL=demo\n")
    config_file(home, '[api_keys]\nopenai = "sk-secret-2"\nanthropic = "sk-secret-3"\n')
    trust_project()
    settings = load_settings()
    assert {name: key.get_secret_value() for name, key in settings.api_keys.items()} == {
        "openai": "sk-secret-1",
        "anthropic": "sk-secret-3",
    }
    assert find_origin(Settings, "api_keys.openai", {}).text == ".env"
    printed_settings = (
        f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    )
    assert "sk-secret" not in printed_settings
    assert not any("sk-secret" in value for value in os.environ.values())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"export MAHTAB_MODLE=demo\n", ".env: there is no setting 'modle'. Did you mean model?"),
        (b"MAHTAB_MODEL=\xff\n", ".env: the file cannot be read: "),
        (b"A=1\nMAHTAB_MAX_TURNS=many\n", ".env: max_turns: input should be"),
        (b"MAHTAB_KEYMAP=" + b"[" * 100_000, "A variable or a line of .env: not valid JSON."),
    ],
)
def test_wrong_env_file_gives_one_sentence(project: Path, content: bytes, message: str) -> None:
    (project / ".env").write_bytes(content)
    with suppress(SettingsError, ValueError, RecursionError):
        trust_project()
    assert refusal().startswith(message)


def test_configuration_that_is_a_folder_is_reported(project: Path) -> None:
    (project / ".mahtab" / "config.toml").mkdir(parents=True)
    assert refusal().endswith("config.toml: not a file.")


def test_byte_order_mark_is_accepted(project: Path) -> None:
    config_file(project, b'\xef\xbb\xbftheme = "nord"\n')
    assert load_settings().theme == "nord"


def test_skill_folders_in_the_environment_are_separated_by_colons(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (project / name).mkdir()
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "a:b:")
    assert load_settings().skills_dir == (Path("a"), Path("b"))
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "a:c")
    assert refusal() == "MAHTAB_SKILLS_DIR: c is not a folder."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('modle = "demo"\n', "there is no setting 'modle'. Did you mean model?"),
        ('approval = "always"\n', "approval: input should be 'ask', 'review' or 'auto'."),
        ("max_turns = 0\n", "max_turns: input should be greater than or equal to 1."),
        ("a = [\n", "not valid TOML"),
        ("[keymap]\nhelp = 3\n", "keymap.help: input should be a valid string."),
        (b"\xff\xfe\x00", "not UTF-8"),
        ('embedding_model = "ollama:"', "embedding_model: name the provider and the model"),
        pytest.param(f"keymap = {'[' * 100_000}", "not valid TOML", id="deep"),
        pytest.param(f"max_turns = {'9' * 5_000}", "not valid TOML", id="long number"),
        pytest.param(f'code_dir = "{"a" * 5_000}"', "code_dir: aaaa", id="long name"),
        ('skills_dir = ["~nobody-of-this-name/x"]', "skills_dir: "),
        ("max_usd = nan", "max_usd: input should be a finite number."),
        ('[mcp.db]\ncomand = "x"\n', "mcp.db: "),
    ],
)
def test_a_wrong_configuration_names_file_and_key(
    home: Path, project: Path, text: str | bytes, message: str
) -> None:
    path = config_file(home, text)
    error = refusal()
    assert str(path) in error
    assert message in error


@pytest.mark.parametrize("value", ["3", '"sk-x"', "{openai = 3}"])
def test_wrong_value_in_an_untrusted_file_gives_a_sentence(project: Path, value: str) -> None:
    path = config_file(project, f"api_keys = {value}\n")
    assert refusal().startswith(f"{path}: api_keys")


def test_invalid_json_variable_error_names_the_format(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_API_KEYS", "sk-typed")
    assert refusal() == 'MAHTAB_API_KEYS: not valid JSON. Write it like {"name": "value"}.'


def test_deleted_working_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "no longer exists" in refusal()


def test_invalid_env_file_line_is_reported_once(home: Path, project: Path) -> None:
    (project / ".env").write_text("A=1\nno line = = at all\nMAHTAB_MODEL=demo\n")
    trust_project()
    done = run_python("-m", "mahtab_tui", "config")
    assert done.stderr == "mahtab-tui: .env, line 2: not NAME=value; the line is ignored.\n"
    assert done.stdout.splitlines()[0].split(maxsplit=2) == ["model", "demo", ".env"]


def test_files_with_removed_settings_are_read_with_one_sentence(home: Path, project: Path) -> None:
    removed = "".join(f'{key} = "old"\n' for key in sorted(REMOVED_KEYS))
    path = config_file(home, f"max_turns = 7\n{removed}")
    (project / ".env").write_text("MAHTAB_HOOK_SECONDS=3\n")
    settings = load_settings()
    assert settings.max_turns == 7
    assert settings.untrusted == (
        f"{path} sets {', '.join(sorted(REMOVED_KEYS))}, {GONE}",
        f".env sets hook_seconds, {GONE}",
    )
    assert not REMOVED_KEYS & Settings.model_fields.keys()
    with pytest.raises(SettingsError, match="The setting hooks was removed"):
        parse_assignments(["hooks=none"])


# MCP servers in the configuration and in a project's `.mcp.json`.


def servers_file(content: Any = None, **servers: Any) -> Path:
    file = Path.cwd() / ".mcp.json"
    content = {"mcpServers": servers} if content is None else content
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_project_servers_are_used_only_while_trusted_and_unchanged(project: Path) -> None:
    server = {"command": "db", "args": ["--x"], "env": {"A": "1"}}
    file = servers_file(db={"type": "stdio", **server, "timeout": 5})
    settings = load_settings()
    assert settings.mcp == {}
    assert settings.untrusted == (
        f"{file} sets mcp, which is not used until you trust it: run mahtab-tui config trust.",
    )
    trust_result = CliRunner().invoke(app, ["config", "trust", "--yes"])
    assert "'command': 'db', 'args': ['--x'], 'env': {'A': '1'}" in trust_result.stdout
    assert load_settings().mcp == {"db": McpServer(command="db", args=("--x",), env={"A": "1"})}
    assert load_settings().origin("mcp.db") == (str(file), file)
    servers_file(db={"command": "worse"})
    assert load_settings().mcp == {}


def test_users_own_server_overrides_the_projects_of_the_same_name(
    project: Path, home: Path
) -> None:
    servers_file(db={"url": "https://theirs.example/mcp"}, other={"command": "other"})
    trust_project()
    configure(home, db={"command": "mine"})
    assert load_settings().mcp == {
        "db": McpServer(command="mine"),
        "other": McpServer(command="other"),
    }


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", 'there is no table "mcpServers"'),
        (3, "the server 'a' is not used: it is not a table."),
        ({}, "the server 'a' is not used: give either a command or a url."),
        ({"type": "sse", "url": "https://x"}, "its type 'sse' is not supported"),
        ({"command": 3}, "command: input should be a valid string"),
        ({"command": "x", "url": "https://x"}, "give either a command or a url"),
        ({"url": "file:///etc/passwd"}, "url: string should match pattern"),
    ],
)
def test_broken_file_gives_one_sentence_and_does_not_prevent_startup(
    project: Path, server: Any, sentence: str
) -> None:
    file = servers_file(server) if isinstance(server, str) else servers_file(a=server)
    (problem,) = load_settings().untrusted
    assert problem.startswith(f"{file}: ")
    assert sentence in problem


def test_non_regular_file_is_not_read(project: Path) -> None:
    os.mkfifo(project / ".mcp.json")
    assert load_settings().untrusted == (f"{project / '.mcp.json'}: not a file.",)


def test_variables_are_substituted_when_a_server_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "here")
    args = ("${MISSING:-default}", "a")
    expanded = McpServer(command="${WHERE}/x", args=args, env={"K": "${WHERE}"}).expanded()
    assert expanded == McpServer(command="here/x", args=("default", "a"), env={"K": "here"})
    with pytest.raises(LookupError, match="The variable MISSING is not set"):
        McpServer(url="https://x/${MISSING}").expanded()


def test_a_variable_that_is_set_to_nothing_is_empty_unless_it_has_a_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMPTY", "")
    server = McpServer(command="x", args=("--flags=${EMPTY}", "${EMPTY:-default}", "${EMPTY:-}"))
    assert server.expanded().args == ("--flags=", "default", "")


def test_secrets_of_servers_are_masked_wherever_secrets_are(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", "tok-123456789")
    configure(
        home,
        a={"command": "x", "env": {"GITHUB_TOKEN": "${THE_TOKEN}", "DEBUG": "verbose-mode"}},
        b={"url": "https://x.example", "headers": {"Authorization": "Bearer abcdefghij"}},
    )
    secrets = load_settings().secrets()
    assert {"tok-123456789", "Bearer abcdefghij", "abcdefghij"} <= set(secrets)
    assert "verbose-mode" not in secrets


@pytest.mark.parametrize(
    "words",
    [["/opt/bin/mahtab-tui", "mcp"], ["/usr/bin/python3", "-P", "-m", "mahtab_tui", "mcp"]],
    ids=["program", "module"],
)
def test_entry_written_by_mcp_install_is_not_our_own_server(
    project: Path, words: list[str]
) -> None:
    own_entry = {"command": words[0], "args": words[1:], "alwaysLoad": True}
    servers_file(mahtab=own_entry)
    settings = load_settings()
    assert (settings.mcp, settings.untrusted) == ({}, ())
    servers_file(mahtab=own_entry, other={"command": "x"})
    assert "mcp" in load_settings().untrusted[0]
