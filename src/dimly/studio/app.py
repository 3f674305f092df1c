"""The server: on this machine alone, behind a token, with nothing loaded from elsewhere; a free port."""

import secrets
import socket
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from nicegui import app, ui
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dimly.errors import ParameterError
from dimly.studio import explore_page, ledger_page, plan_page, release_page, theme
from dimly.studio.workspace import Workspace

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 8765
_TRIED: Final = 20  # ports after the first one, where none was asked for
_REFUSED: Final = (
    b"This page needs the token that dimly studio printed in the terminal: open the whole address that it shows there."
)


def serve(workspace: Workspace, *, port: int | None = None, browser: bool = True, ready: Callable[[str], None]) -> None:
    """Serve the studio until the process is interrupted.

    Parameters
    ----------
    workspace : Workspace
        What was named on the command line.
    port : int, optional
        On which to listen; a free one by default.
    browser : bool, default=True
        Whether to open the page in a browser.
    ready : callable
        Told the address, with its token, before the server starts.

    Raises
    ------
    ParameterError
        If somebody else listens on the port.
    """
    chosen, token, ticket = free_port(port), secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    app.add_middleware(TokenGate, token=token, port=chosen, ticket=ticket if browser else None)
    app.get("/studio/map/{key}/{name}")(workspace.map_response)
    ready(f"http://{HOST}:{chosen}/?token={token}")
    ui.run(
        lambda: frame(workspace),
        host=HOST,
        port=chosen,
        title="Dimly studio",
        favicon=theme.ICON,
        dark=None,
        show=f"/?token={ticket}" if browser else False,
        reload=False,
        show_welcome_message=False,
        reconnect_timeout=20.0,
        uvicorn_logging_level="error",
        gzip_middleware_factory=None,  # on one machine, packing a map of a million people takes longer than sending it
    )


def free_port(asked: int | None) -> int:
    """Return the port to listen on: the one that was asked for, or the first free one from 8765 on.

    Raises
    ------
    ParameterError
        If it is taken.
    """
    for port in [asked] if asked is not None else range(FIRST_PORT, FIRST_PORT + _TRIED):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            return int(tried.getsockname()[1])
    if asked is not None:
        raise ParameterError(
            f"port must be free and from 1024 to 65535, got {asked}. Leave it out to use any free one."
        )
    raise ParameterError(f"port must be given: those from {FIRST_PORT} on are taken. Use --port 0 for any free one.")


class TokenGate:
    """Lets in who brings the token, in the address or, after that, in a cookie; and nobody from another site.

    The first page with a token in its address sets the cookie and is sent on to the same address without the token, so
    that it does not stay in the browser's history. A request that names another host (as one by DNS rebinding would)
    or comes from a page of another origin is refused, whatever it brings.

    The address that a browser is started with stands in the list of processes, for every account of the machine to see.
    So it holds a ``ticket`` instead of the token, which lets in once: later it is worth nothing, and if somebody else
    was faster, the browser is refused, which is seen.
    """

    def __init__(self, inner: ASGIApp, *, token: str, port: int, ticket: str | None = None) -> None:
        self._inner = inner
        self._token = token
        self._tickets = [] if ticket is None else [ticket]
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        self._cookie = f"dimly-studio-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        at_home = headers.get("host") in self._hosts and (
            "origin" not in headers or headers["origin"].removeprefix("http://") in self._hosts
        )
        is_page = at_home and scope["type"] == "http" and scope["method"] == "GET"
        if is_page and (self._is_token(given[-1:]) or self._takes_ticket(given[-1:])):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            path = "/" + quote(scope["path"].lstrip("/"))  # two slashes would lead to another host
            await self._welcome(send, path + (f"?{rest}" if rest else ""))
        elif at_home and self._is_token(self._cookies(headers.get("cookie", ""))):
            await self._inner(scope, receive, _hardened(send))
        else:
            await _refuse(scope, receive, send)

    def _cookies(self, header: str) -> list[str]:
        """Return what our cookie holds; what other servers of this host have set may look like anything."""
        pairs = [one.strip().partition("=") for one in header.split(";")]
        return [value for name, _, value in pairs if name == self._cookie]

    def _is_token(self, given: list[str]) -> bool:
        return any(_equal(one, self._token) for one in given)

    def _takes_ticket(self, given: list[str]) -> bool:
        if not any(_equal(one, ticket) for one in given for ticket in self._tickets):
            return False
        self._tickets.clear()
        return True

    async def _welcome(self, send: Send, path: str) -> None:
        cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", path.encode()), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def _hardened(send: Send) -> Send:
    """Return a way to send that forbids pages to be framed, and the browser to load anything from elsewhere."""
    policy = (
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; "
        b"base-uri 'self'; form-action 'self'"
    )
    added = [
        (b"content-security-policy", policy),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    ]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return sending


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4403})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_REFUSED)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSED})


def frame(workspace: Workspace) -> None:
    """Build the page of one tab: what all four pages share, and the one that its address names."""
    tab = plan_page.PlanTab(workspace)
    theme.apply()
    theme.header()
    pages: dict[str, Callable[..., Any]] = {
        "/": lambda: plan_page.build(tab),
        "/release": lambda: release_page.build(workspace),
        "/explore": lambda: explore_page.build(workspace),
        "/ledger": lambda: ledger_page.build(workspace, tab),
    }
    with ui.element("main").classes("studio-main") as main:
        ui.sub_pages(pages)
    ui.skip_link("Skip to the page", target=main)
    theme.footer()
