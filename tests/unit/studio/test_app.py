import asyncio
import socket
from typing import Any

import pytest

from dimly.errors import ParameterError
from dimly.studio.app import HOST, TokenGate, free_port

TOKEN = "a-token"  # noqa: S105 - of a test
PORT = 8765
HOME = f"{HOST}:{PORT}"
COOKIE = f"dimly-studio-{PORT}={TOKEN}"


def asked(path: str = "/", query: str = "", *, kind: str = "http", method: str = "GET", **headers: str) -> list[Any]:
    """Return what the gate answers; "inside" where it let the request in."""
    sent: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        sent.append("inside")
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {"host": HOME, **headers}.items()],
    } | ({"method": method} if kind == "http" else {})
    asyncio.run(TokenGate(inner, token=TOKEN, port=PORT)(scope, receive, send))
    return sent


def test_the_token_is_taken_from_the_address_into_a_cookie() -> None:
    start, _ = asked("/explore", f"token={TOKEN}&x=1")
    headers = dict(start["headers"])
    assert start["status"] == 303
    assert headers[b"location"] == b"/explore?x=1"
    cookie = headers[b"set-cookie"].decode()
    assert cookie.startswith(COOKIE)
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_the_cookie_lets_in_and_answers_forbid_outside_requests() -> None:
    inside, start = asked(cookie=COOKIE, origin=f"http://{HOME}")
    assert inside == "inside"
    policy = dict(start["headers"])[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert asked(kind="websocket", cookie=COOKIE)[0] == "inside"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("token=", {}),
        ("token=other", {}),
        ("", {"cookie": f"dimly-studio-{PORT}=other"}),
        ("", {"cookie": f"dimly-studio-1={TOKEN}"}),
        ("", {"cookie": "\x01;;="}),
        (f"token={TOKEN}", {"host": "evil.example"}),
        ("", {"cookie": COOKIE, "host": f"evil.example:{PORT}"}),
        ("", {"cookie": COOKIE, "origin": "http://127.0.0.1:9999"}),
        ("", {"cookie": COOKIE, "origin": "null"}),
    ],
)
def test_everybody_else_is_refused(query: str, headers: dict[str, str]) -> None:
    start, body = asked(query=query, **headers)
    assert start["status"] == 403
    assert b"token" in body["body"]
    assert asked(query=query, kind="websocket", **headers) == [{"type": "websocket.close", "code": 4403}]


def test_a_token_in_the_address_of_a_post_is_not_enough() -> None:
    assert asked(query=f"token={TOKEN}", method="POST")[0]["status"] == 403


def test_a_port_that_is_taken_is_refused_and_otherwise_passed_by() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ParameterError, match="port must be free"):
            free_port(port)
        assert free_port(None) != port
    assert free_port(0) > 0
