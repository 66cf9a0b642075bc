"""SASL on client connections, which finds out who a client is before it may ask anything (KIP-12, KIP-43,
KIP-84, KIP-368).

SaslHandshake names a mechanism, SaslAuthenticate carries its tokens. After a handshake of version 0 the
tokens come as bare frames. PLAIN is checked against the same credentials as SCRAM.

This module is pure: nonces and the key of the password memory are injected.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.image import ScramCredential
from actors.protocol import entities
from actors.protocol.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from actors.protocol.header import Header
from actors.security.scram import MECHANISM_NUMBERS, ClientFirst, ScramError, ScramServer, is_password

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *MECHANISM_NUMBERS)
PASSWORDS_REMEMBERED_MAX: Final = 10_000
_WITH_LIFETIME_SINCE: Final = 1
_LENGTH_BYTES: Final = 4

Credentials = Mapping[tuple[str, str], ScramCredential]
"""(user, mechanism) -> the user's credential."""


class Step(NamedTuple):
    """What one frame of an exchange has led to."""

    answer: bytes
    """The whole answer frame; b"" for none."""
    principal: str = ""
    """The user as whom the client is known from now on; "": not yet."""
    failure: str = ""
    """Why the connection is to be closed after the answer, for the log; "": it stays open."""


class Passwords:
    """The passwords that were right, remembered by a keyed digest: the same client connects again and again,
    and to work out a salted password takes milliseconds on purpose."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[ScramCredential, bytes] = {}

    def is_right(self, credential: ScramCredential, password: str) -> bool:
        digest = hmac.digest(self._key, password.encode(), "sha256")
        known = self._known.get(credential)
        if known is not None and hmac.compare_digest(known, digest):
            return True
        if not is_password(credential, password):
            return False
        if len(self._known) >= PASSWORDS_REMEMBERED_MAX:
            self._known.clear()
        self._known[credential] = digest
        return True


class SaslPolicy:
    """What all exchanges of one actor have in common. `credentials` is replaced with each metadata image."""

    def __init__(
        self, mechanisms: Sequence[str], reauth_ms: int, new_nonce: Callable[[], str], passwords: Passwords
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        self.reauth_ms = reauth_ms
        """How long an authentication holds, in ms; 0: as long as its connection."""
        self.new_nonce = new_nonce
        self.passwords = passwords
        self.credentials: Credentials = {}


class SaslExchange:
    """One authentication of one connection. `before` is the principal that it has already when it
    authenticates again, which must stay the same."""

    def __init__(self, policy: SaslPolicy, before: str = "") -> None:
        self.expects_bare_token = False
        """Whether the next frame is a token without a Kafka header (after a handshake of version 0)."""
        self._policy = policy
        self._before = before
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._user = ""

    def on_request(self, header: Header, frame: bytes, body_offset: int) -> Step:
        """Carry out a SaslHandshake or SaslAuthenticate. Raises MalformedRequest, UnsupportedRequest."""
        entity = entities.decode_entity(header, frame, body_offset)
        if header.api_key == SASL_HANDSHAKE and not self._mechanism:
            return self._handshake(header, entity)
        if header.api_key == SASL_AUTHENTICATE and self._mechanism and not self.expects_bare_token:
            return self._authenticate(header, entity.auth_bytes)
        return Step(b"", failure="a request that SASL does not expect now")

    def on_bare_token(self, token: bytes) -> Step:
        """Take a token that came as a frame without a Kafka header; a refusal has no answer there."""
        try:
            answer, principal = self._token(token)
        except ScramError as error:
            return Step(b"", failure=self._failed(error))
        return Step(len(answer).to_bytes(_LENGTH_BYTES, "big") + answer, principal)

    def _handshake(self, header: Header, entity: Any) -> Step:
        known = entity.mechanism in self._policy.mechanisms
        error = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
        answer = _encoded(header, error_code=error, mechanisms=self._policy.mechanisms)
        if not known:
            return Step(answer, failure=f"SASL mechanism {entity.mechanism!r} is not enabled")
        self._mechanism = entity.mechanism
        self.expects_bare_token = header.api_version == 0
        return Step(answer)

    def _authenticate(self, header: Header, token: bytes) -> Step:
        try:
            server_token, principal = self._token(token)
        except ScramError as error:
            # The client is not told the reason: it would tell whether there is such a user.
            kind = "re-authentication" if self._before else "authentication"
            message = (
                f"Authentication failed during {kind} due to invalid credentials "
                f"with SASL mechanism {self._mechanism}"
            )
            code = ErrorCode.sasl_authentication_failed
            answer = _encoded(header, error_code=code, error_message=message, auth_bytes=b"")
            return Step(answer, failure=self._failed(error))
        lifetime_ms = (
            self._policy.reauth_ms if principal and header.api_version >= _WITH_LIFETIME_SINCE else 0
        )
        answer = _encoded(
            header,
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=server_token,
            session_lifetime=timedelta(milliseconds=lifetime_ms),
        )
        return Step(answer, principal)

    def _token(self, token: bytes) -> tuple[bytes, str]:
        """Return the server's token, and the principal once it is proved. Raises ScramError."""
        if self._mechanism == PLAIN:
            self._user = self._plain(token)
        elif self._scram is None:
            client = ClientFirst(token)
            self._user = client.user
            credential = self._policy.credentials.get((client.user, self._mechanism))
            if credential is None:
                raise ScramError("there is no such user")
            self._scram = ScramServer(credential, client, self._policy.new_nonce())
            return self._scram.first, ""
        answer = b"" if self._scram is None else self._scram.final(token)
        principal = f"User:{self._user}"
        if self._before and principal != self._before:
            raise ScramError(f"re-authentication may not change {self._before}")
        return answer, principal

    def _plain(self, token: bytes) -> str:
        """Return the user of a PLAIN message (RFC 4616). Raises ScramError."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise ScramError("a message that is no UTF-8") from error
        if len(parts) != 3:
            raise ScramError(f"PLAIN has 3 parts, not {len(parts)}")
        authzid, user, password = parts
        self._user = user
        if not user or not password or (authzid and authzid != user):
            raise ScramError("user or password is missing, or another user is to be acted for")
        mine = (self._policy.credentials.get((user, mechanism)) for mechanism in MECHANISM_NUMBERS)
        if not any(self._policy.passwords.is_right(each, password) for each in mine if each is not None):
            raise ScramError("user or password is wrong")
        return user

    def _failed(self, error: ScramError) -> str:
        return f"authentication of {self._user!r} by {self._mechanism} failed: {error}"


def _encoded(header: Header, **fields: Any) -> bytes:
    answer = entities.build(entities.response_class(header.api_key, header.api_version), **fields)
    return entities.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)


def refused_again(header: Header) -> bytes | None:
    """Return the answer to SASL's requests if they make no sense: on a listener without SASL, or after the
    authentication, unless it is limited in time (ILLEGAL_SASL_STATE). None for any other request."""
    error = ErrorCode.illegal_sasl_state
    if header.api_key == SASL_HANDSHAKE:
        return _encoded(header, error_code=error, mechanisms=())
    if header.api_key == SASL_AUTHENTICATE:
        message = "SaslAuthenticate request received after successful authentication"
        return _encoded(header, error_code=error, error_message=message, auth_bytes=b"")
    return None
