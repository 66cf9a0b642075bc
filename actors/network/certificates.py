"""TLS of a node's port: its certificate and whom it trusts, read from PEM files, and again when they change.

What is read is tried before it counts: a client as other nodes are has to accept it, as Kafka's brokers try
theirs. Connections that are open stay as they are when files change.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from actors.ground.file_stamps import Stamps, stamps_of
from actors.ground.spec import PEM, BrokerSettings
from actors.security.certificate_names import Certificate, certificate_of
from actors.security.principal_rules import PrincipalRules

logger = logging.getLogger(__name__)

KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
WARNING_DAYS: Final = (30, 7, 1, 0)
"""How many days before a certificate ends the log says so."""
_DAY_S: Final = 86_400
_ROUNDS_MAX: Final = 10
_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_VERSIONS: Final = tuple(_VERSIONS)
CLIENT_AUTH: Final = tuple(_AUTH)
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(r"-----BEGIN (?:\w+ )?PRIVATE KEY-----")


class TlsUnusable(ValueError):
    """Raised if TLS cannot be had as the settings say; the text begins with the setting."""


class Contexts(NamedTuple):
    """What is made of the files as they are at one moment."""

    server: ssl.SSLContext
    """The context for clients that connect."""
    client: ssl.SSLContext
    """The context with which a node of the tier connects to another one."""
    certificate: Certificate
    """The node's own certificate."""


def contexts_of(settings: BrokerSettings) -> Contexts:
    """Read the files. Raises TlsUnusable."""
    own = _pem(KEYSTORE, settings.ssl_keystore_location, settings.ssl_keystore_type)
    chain = _CERTIFICATE.findall(own)
    if _KEY.search(own) is None:
        raise TlsUnusable(f"{KEYSTORE} = {settings.ssl_keystore_location!r}: it has no private key")
    trusted = ""
    if settings.ssl_truststore_location:
        trusted = _pem(TRUSTSTORE, settings.ssl_truststore_location, settings.ssl_truststore_type)
    server, client = _server(settings), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = ssl.TLSVersion.TLSv1_2
    client.check_hostname = settings.ssl_endpoint_identification_algorithm.lower() == "https"
    # The nodes' own certificate may be one that they signed themselves, or whose authority is in no file.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(client, KEYSTORE, "\n".join(chain))
    if trusted:
        _trust(client, TRUSTSTORE, trusted)
        _trust(server, TRUSTSTORE, trusted)
    else:
        client.load_default_certs()
    for context in (server, client):
        _load(context, settings)
    return Contexts(server, client, certificate_of(ssl.PEM_cert_to_DER_cert(chain[0])))


def try_out(contexts: Contexts, host: str) -> None:
    """Have a node connect to another one at `host`, in memory. Raises TlsUnusable if it refuses to, as
    clients would."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts.server.wrap_bio(to_server, to_client, server_side=True)
    client = contexts.client.wrap_bio(to_client, to_server, server_hostname=host)
    left = [client.do_handshake, server.do_handshake]
    try:
        for _ in range(_ROUNDS_MAX):
            left = [step for step in left if not _is_done(step)]
    except ssl.SSLError as error:
        raise TlsUnusable(f"{KEYSTORE}: nodes and clients refuse it: {reason_of(error)}") from None
    if left:
        raise TlsUnusable(f"{KEYSTORE}: nodes cannot connect to each other by it")


def check(settings: BrokerSettings, host: str) -> None:
    """Check that TLS works at `host` as the settings say. Raises TlsUnusable."""
    try:
        PrincipalRules(settings.ssl_principal_mapping_rules)
    except ValueError as error:
        raise TlsUnusable(f"ssl.principal.mapping.rules: {error}") from None
    try_out(contexts_of(settings), host)


def reason_of(error: Exception) -> str:
    """Say why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the other side went away"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    reason = str(getattr(error, "reason", None) or error).lower().replace("_", " ")
    if "peer did not return a certificate" in reason:
        return "it shows no certificate, and ssl.client.auth is required"
    if "unsupported protocol" in reason:
        return "it speaks no version of ssl.enabled.protocols"
    _, is_alert, alert = reason.partition(" alert ")
    return f"the other side gives up: {alert}" if is_alert else reason


class Certificates:
    """The TLS of one node's port, at host `host`. Raises TlsUnusable if it cannot be had."""

    def __init__(self, settings: BrokerSettings, host: str, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._host = host
        self._clock = clock
        self._stamp = self._stamped()
        self._told = 0
        """How many of WARNING_DAYS the log has told of."""
        self._rules = PrincipalRules(settings.ssl_principal_mapping_rules)
        self.contexts = contexts_of(settings)
        self.handshakes_failed_total = 0
        """How many clients have not got through TLS, since the start."""
        try:
            try_out(self.contexts, host)
        except TlsUnusable as error:
            # It was good when the tier was started: a node that comes back is better than none.
            logger.error("%s", error)

    @classmethod
    def of(cls, settings: BrokerSettings, host: str) -> Certificates | None:
        """Return the TLS that the settings ask for; None if they ask for none. Raises TlsUnusable."""
        return cls(settings, host) if settings.has_tls else None

    @property
    def has_sasl(self) -> bool:
        """Return whether SASL says who a client is, and not its certificate."""
        return self._settings.has_sasl

    def principal(self, der: bytes | None) -> str:
        """Return the principal of a client that has shown this certificate, in DER; None: it has shown none.
        Raises NoRule, and ValueError for what is no certificate."""
        return self._rules.principal(None if der is None else certificate_of(der).subject)

    def look(self) -> None:
        """Take up files that have changed; if they are of no use, what was read before goes on. Tell of a
        certificate that is about to end."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self._take_up()
        days_left = (self.contexts.certificate.not_after_s - self._clock()) / _DAY_S
        told = sum(days_left <= days for days in WARNING_DAYS)
        if told > self._told:
            said = "has ended" if days_left <= 0 else f"ends in {days_left:.1f} days"
            logger.warning("the certificate of %s %s", KEYSTORE, said)
        self._told = told

    def _take_up(self) -> None:
        try:
            contexts = contexts_of(self._settings)
            try_out(contexts, self._host)
        except (ValueError, OSError) as error:  # as TlsUnusable is one
            logger.error("a new certificate is not taken up, the one before goes on: %s", error)
            return
        self.contexts = contexts
        logger.info("took up the certificate of %s from %s", contexts.certificate.subject, KEYSTORE)

    def _stamped(self) -> Stamps:
        """Return what tells whether the files have changed."""
        return stamps_of((self._settings.ssl_keystore_location, self._settings.ssl_truststore_location))


def _is_done(step: Callable[[], None]) -> bool:
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True


def _pem(name: str, path: str, kind: str) -> str:
    """Return the text of a PEM file that has certificates. Raises TlsUnusable."""
    if kind != PEM:
        raise TlsUnusable(f"{name.replace('location', 'type')} = {kind!r}: {PEM} is allowed")
    if not path:
        raise TlsUnusable(f"{name}: TLS needs a PEM file with the private key and its certificate")
    try:
        text = Path(path).read_bytes().decode("latin-1")
    except OSError as error:
        raise TlsUnusable(f"{name} = {path!r}: {error.strerror}") from None
    if _CERTIFICATE.search(text) is None:
        raise TlsUnusable(
            f"{name} = {path!r}: it is no PEM file with a certificate; `openssl pkcs12 -in FILE -out NEW` "
            "makes one of a PKCS12 keystore"
        )
    return text


def _server(settings: BrokerSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[version] for version in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _AUTH[settings.ssl_client_auth]
    if context.verify_mode != ssl.CERT_NONE and not settings.ssl_truststore_location:
        raise TlsUnusable(f"{TRUSTSTORE}: ssl.client.auth = {settings.ssl_client_auth!r} needs it")
    return context


def _trust(context: ssl.SSLContext, name: str, pem: str) -> None:
    try:
        context.load_verify_locations(cadata="\n".join(_CERTIFICATE.findall(pem)))
    except ssl.SSLError as error:
        raise TlsUnusable(f"{name}: a certificate in it cannot be read: {reason_of(error)}") from None
    except (TypeError, ValueError) as error:  # for characters that no PEM has
        raise TlsUnusable(f"{name}: a certificate in it cannot be read: {error}") from None


def _load(context: ssl.SSLContext, settings: BrokerSettings) -> None:
    """Load the node's key and certificate. Raises TlsUnusable."""

    def password() -> str:
        if not settings.ssl_key_password:
            raise TlsUnusable("ssl.key.password: the private key is encrypted, and needs it")
        return settings.ssl_key_password

    where = f"{KEYSTORE} = {settings.ssl_keystore_location!r}"
    try:
        context.load_cert_chain(settings.ssl_keystore_location, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsUnusable(f"{where}: the private key is not that of its first certificate") from None
        if settings.ssl_key_password:
            raise TlsUnusable(f"{where}: ssl.key.password is wrong, or the key cannot be read") from None
        raise TlsUnusable(f"{where}: the key or certificate cannot be read: {reason_of(error)}") from None
    except OSError as error:
        raise TlsUnusable(f"{where}: {error.strerror}") from None
