"""Mutual TLS for one link, without a socket: bytes that came go in, bytes to send come out.

TLS keeps strangers from reading and changing what replicas say; who a replica is, the handshake above it
proves. So a certificate only has to come from the tier's own authority, whatever name it carries; as every
replica calls and is called, it has to be good for both (extended key usage: none, or clientAuth and
serverAuth). Files are read when a replica starts: renewed ones count from its next start.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from storage.raft.errors import StorageError
from storage.raft.handshake import Refused

READ_BYTES: Final = 64 * 1024
TLS_FIRST_BYTES: Final = (0x15, 0x16)
"""The record types that may come first: an alert or a handshake."""


class TlsUnusable(StorageError):
    """Raised if the certificate, its key or the authority's certificate cannot be used."""


class LinkTls(NamedTuple):
    """The paths of PEM files. The key must not be encrypted: nobody is there to type a passphrase."""

    certificate_path: str
    key_path: str
    ca_path: str

    def context(self, *, dials: bool) -> ssl.SSLContext:
        """Return the context for the links that we dial, or for those that we accept. Raises TlsUnusable."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if dials else ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        if not dials:
            context.num_tickets = 0  # links are never resumed
        try:
            context.load_cert_chain(self.certificate_path, self.key_path, password=_no_passphrase)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise TlsUnusable(
                f"certificate {self.certificate_path} with key {self.key_path}: {error}"
            ) from error
        try:
            context.load_verify_locations(self.ca_path)
        except OSError as error:
            raise TlsUnusable(f"authority {self.ca_path}: {error}") from error
        return context


def _no_passphrase() -> str:
    raise ValueError("the key is encrypted; links need one that is not")


class TlsStream:
    """One side of one TLS connection."""

    def __init__(self, context: ssl.SSLContext, *, dials: bool) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not dials)
        self._waiting = bytearray()
        self._began = False
        self._ready = False

    def seal(self, plain: bytes) -> bytes:
        """Return the bytes to send now. What is given before the TLS handshake is over goes out with its
        end."""
        self._waiting += plain
        self._advance()
        return self._outgoing.read()

    def open(self, sealed: bytes) -> bytes:
        """Return the plain bytes that are complete by now. Raises Refused. Either way `pending` is to be
        sent: an answer, or the alert that tells the other side why."""
        if not self._began and sealed[0] not in TLS_FIRST_BYTES:
            raise Refused("it does not speak TLS, which this replica demands")
        self._began = True
        self._incoming.write(sealed)
        plain = bytearray()
        try:
            self._advance()
            while self._ready and (some := self._tls.read(READ_BYTES)):
                plain += some
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return bytes(plain)  # a close_notify says no more than the end of the connection behind it
        except ssl.SSLError as error:
            raise Refused(_reason(error)) from None
        return bytes(plain)

    def pending(self) -> bytes:
        return self._outgoing.read()

    def _advance(self) -> None:
        if not self._ready:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return
            self._ready = True
        while self._waiting:
            del self._waiting[: self._tls.write(self._waiting)]


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not from this tier's authority or not valid: {error.verify_message}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "peer did not return a certificate" in reason:
        return "it showed no certificate, which this replica demands"
    _, is_alert, alert = reason.partition(" alert ")
    return f"it refused TLS with this replica: {alert}" if is_alert else f"TLS with it failed: {reason}"
