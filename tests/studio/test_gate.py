"""Who is let in: the token, a ticket that is good once, and nobody from another site."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("nicegui")

from dimly.studio.app import TokenGate

PORT = 8765
COOKIE = f"dimly-studio-{PORT}"
TOKEN = "secret"  # noqa: S105 - of a gate that guards nothing


async def _inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def asked(gate: TokenGate, address: str = "/", **headers: str) -> tuple[int, dict[str, str]]:
    """Return the status of an answer, and its headers."""
    path, _, query = address.partition("?")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": f"127.0.0.1:{PORT}"} | headers
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    asyncio.run(gate(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def test_a_ticket_is_good_once_and_the_token_always() -> None:
    gate = TokenGate(_inner, token=TOKEN, port=PORT, ticket="once")
    assert asked(gate, "/?token=once", host="evil.example")[0] == 403  # which does not use it up
    status, headers = asked(gate, "/?token=once")
    assert status == 303
    assert headers["set-cookie"].startswith(f"{COOKIE}=secret; HttpOnly; SameSite=Strict")
    assert "once" not in headers["location"]
    assert asked(gate, "/?token=once")[0] == 403
    assert asked(gate, cookie=f"{COOKIE}=once")[0] == 403
    assert [asked(gate, "/?token=secret")[0] for _ in range(2)] == [303, 303]
    assert asked(TokenGate(_inner, token=TOKEN, port=PORT), "/?token=")[0] == 403


def test_cookies_of_other_servers_do_no_harm() -> None:
    gate = TokenGate(_inner, token=TOKEN, port=PORT)
    for others in ("a[b]=1", "theme={dark}", '"', "=", "dimly-studio-1=x"):
        assert asked(gate, cookie=f"{others}; {COOKIE}=secret")[0] == 200
        assert asked(gate, cookie=others)[0] == 403


@pytest.mark.parametrize("path", ["//evil.example/", "/ex plore\r\nx: y", "/größe"])
def test_it_leads_nowhere_else(path: str) -> None:
    status, headers = asked(TokenGate(_inner, token=TOKEN, port=PORT), path + "?token=secret&a=b")
    assert status == 303
    where = headers["location"]
    assert where.startswith("/")
    assert not where.startswith("//")
    assert where.endswith("?a=b")
    assert where.isascii()
    assert where.isprintable()
