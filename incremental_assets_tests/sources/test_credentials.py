"""Users and passwords of sources: two variables, asked for when a source is read."""

from __future__ import annotations

import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.credentials import (
    Credentials,
    credentials_of,
    require_variables,
)


def test_a_user_and_a_password_come_from_two_variables_and_the_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_USER", "me")
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")

    found = credentials_of("kafka://broker/topic", "SHOP")

    assert found == Credentials("me", "s3cret")
    assert "s3cret" not in f"{found!r} {found}"


def test_a_user_may_have_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", "me")
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)

    assert credentials_of("kafka://broker/topic", "SHOP").password == ""


@pytest.mark.parametrize("option", ["credentials", "registry_credentials"])
def test_a_user_that_is_not_set_is_asked_for_by_its_variable_and_the_option_that_names_it(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_USER", "")
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")

    with pytest.raises(SourceError, match=rf"^a: SHOP_USER is not set.* by {option}=…") as error:
        credentials_of("a", "SHOP", option)

    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("begin", ["", "shop", "my-shop", "1ST", "SHOP\n"])
def test_what_no_variable_can_begin_with_is_refused(begin: str) -> None:
    with pytest.raises(DefinitionError, match=r"^Jdbc: credentials=.*'SHOP' for SHOP_USER and"):
        require_variables("Jdbc: credentials", begin, "SHOP")
