"""The kernel that masks secrets."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.masked import PASS_THROUGH, MaskedKernel


def test_every_kernel_member_is_masked_or_listed_as_pass_through() -> None:
    parts = {name for name in vars(Kernel) if not name.startswith("_")}
    assert parts == PASS_THROUGH | (parts & vars(MaskedKernel).keys())
    assert not PASS_THROUGH & vars(MaskedKernel).keys()


def test_unlisted_kernel_member_is_blocked() -> None:
    masked = MaskedKernel(InProcessKernel({}), Secrets())
    assert (
        masked.cannot_undo
        == "the kernel cannot be forked, because it runs inside the program that opened this session"
    )
    with pytest.raises(AttributeError):
        _ = masked._namespace
