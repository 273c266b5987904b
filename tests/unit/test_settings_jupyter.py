"""The token of a Jupyter server is kept where secrets are kept."""

from __future__ import annotations

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session.kernel import check_address
from mahtab_tui.settings.model import load_settings
from mahtab_tui.settings.values import list_settings


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("jupyter+https://hub/user/x?token=sesame", "jupyter+https://hub/user/x"),
        ("jupyter+http://hub?kernel=ir&token=sesame&id=5", "jupyter+http://hub?kernel=ir&id=5"),
    ],
)
def test_token_in_the_address_is_masked_everywhere(given: str, address: str) -> None:
    settings = load_settings(kernel=given)
    assert settings.kernel == address
    assert settings.jupyter_token is not None
    assert settings.jupyter_token.get_secret_value() == "sesame"
    assert "sesame" in settings.secrets()
    assert "sesame" not in repr(settings)
    assert not [each for each in list_settings(settings) if "sesame" in str(each)]


def test_other_addresses_are_unchanged() -> None:
    for address in ("ssh://host", "command: run ?token=sesame", "jupyter:python3"):
        settings = load_settings(kernel=address)
        assert (settings.kernel, settings.jupyter_token) == (address, None)


def test_token_is_not_typed_where_it_would_be_recorded() -> None:
    with pytest.raises(KernelError, match="jupyter_token") as raised:
        check_address("jupyter+http://hub?token=sesame")
    assert "sesame" not in str(raised.value)
    check_address("jupyter+http://hub")
    check_address("existing:file.json")
