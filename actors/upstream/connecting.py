"""Connect to controllers and brokers of the upstream cluster, and log in there."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from typing import Final

from actors.ground.file_stamps import Stamps, stamps_of
from actors.ground.login import OPEN, Login
from actors.network.sasl_client import authenticate
from actors.network.wire import Closed, Wire
from actors.upstream.controllers import Address, Connect, Versions

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 5.0
API_VERSIONS_VERSION: Final = 0
"""The version of ApiVersions that every Kafka answers."""
RENEWED_AT: Final = 0.85
"""The share of the time for which an authentication holds after which it is renewed, as Kafka's own clients
have it at the earliest."""


class NotUnderstood(ConnectionError):
    """Raised if whoever listens is no Kafka, or speaks another security protocol."""


async def offered(wire: Wire, timeout_s: float = CONNECT_TIMEOUT_S) -> Versions:
    """Ask which versions of each API a server offers. Raises Closed and TimeoutError."""
    answer = await wire.call("api_versions", API_VERSIONS_VERSION, timeout_s=timeout_s)
    return {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}


def tls_of(login: Login) -> ssl.SSLContext | None:
    """Return the context of TLS; None without TLS. Raises OSError for files that cannot be used."""
    if not login.is_encrypted:
        return None
    context = ssl.create_default_context(cafile=login.ca)
    context.check_hostname = login.is_verified and login.is_host_checked
    if not login.is_verified:
        context.verify_mode = ssl.CERT_NONE
    if login.certificate is not None:
        context.load_cert_chain(login.certificate, login.key, login.key_password)
    return context


class Tls:
    """The TLS of one login. Its files are read when it is needed: one that is missing is a reason to try
    again, and one that was renewed counts for the next connection."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._paths = tuple(path for path in (login.ca, login.certificate, login.key) if path is not None)
        self._stamps: Stamps | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return the context as the files are now; None without TLS. Raises OSError if none of them could be
        used yet."""
        stamps = stamps_of(self._paths)
        if stamps != self._stamps:
            try:
                self._context = tls_of(self._login)
            except (OSError, ValueError) as error:
                if self._context is None:
                    raise
                log.error("files of TLS have changed and cannot be used, what was read goes on: %s", error)
            self._stamps = stamps
        return self._context


async def connected(
    address: Address, client_id: str, login: Login, tls: ssl.SSLContext | None
) -> tuple[Wire, Versions]:
    """Connect to a server and log in. Return the connection, and the versions of each API that are offered.
    Raises OSError; NotUnderstood and LoginRefused, which are such, say what is wrong."""
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        wire = await Wire.connect(*address, client_id, tls=tls)
    try:
        try:
            versions = await offered(wire)
        except (Closed, TimeoutError):
            raise NotUnderstood(
                f"is no Kafka, or speaks another security.protocol than {login.protocol}"
            ) from None
        if login.mechanism:
            await _log_in(wire, login)
        return wire, versions
    except BaseException:
        await wire.close()
        raise


async def _log_in(wire: Wire, login: Login) -> None:
    lifetime_ms = await authenticate(wire, login)
    if lifetime_ms:
        wire.renew_after(lifetime_ms / 1000 * RENEWED_AT, partial(_log_in, wire, login))


def connector(client_id: str, login: Login = OPEN) -> Connect:
    """Return a function that connects as `login` says; `client_id` is who the brokers' logs name."""
    tls = Tls(login)

    async def connect(address: Address) -> tuple[Wire, Versions]:
        return await connected(address, client_id, login, tls.context())

    return connect
