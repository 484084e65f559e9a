"""A server's address is checked before anything is sent, and holds no secret."""

from __future__ import annotations

import pytest

from castform.errors import UsageError
from castform.remote_endpoint import RemoteEndpoint


@pytest.mark.parametrize(
    "url",
    [
        "http://[::bad",
        "ftp://host",
        "host/v1",
        "http://",
        "http://host:99999/v1",
        "http://host:x/v1",
        "http://:80",
    ],
)
def test_what_is_no_servers_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a server"):
        RemoteEndpoint(url, "", "m")


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        RemoteEndpoint("https://user:hunter2@host/v1", "", "m")
    assert "hunter2" not in str(caught.value) and "--api-key-env" in str(caught.value.hint)


def test_the_key_is_not_in_the_repr() -> None:
    assert "sk-0123456789" not in repr(RemoteEndpoint("https://host/v1", "sk-0123456789", "m"))
