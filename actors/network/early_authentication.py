"""SASL of clients that just arrived, at a node's port: what they may say before they are authenticated.

It stands apart from `actors.network.authentication`, because replicas never meet such clients.
"""

from __future__ import annotations

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.network.authentication import Sasl
from actors.network.connection import Service
from actors.network.early import Decision, Dismiss, EarlyConnection, Keep
from actors.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from actors.protocol.errors import UnsupportedRequest
from actors.security.sasl import SaslExchange


class EarlySasl(Sasl):
    """The SASL of a node's port."""

    def on_stranger(self, early: EarlyConnection, frame: bytes, service: Service) -> Decision:
        """Decide about a frame of a connection that is not authenticated; `service` serves other nodes of the
        tier. Raises MalformedRequest, UnsupportedRequest."""
        exchange: SaslExchange | None = early.session
        if exchange is not None and exchange.expects_bare_token:
            step = exchange.on_bare_token(frame)
        else:
            header, body_offset = parse_header(frame)
            if self._is_tiers(header, frame, body_offset):
                return Keep(service)
            if header.api_key == API_VERSIONS:
                # W18: whom it has reached it is told when it has logged in.
                return codec.api_versions_answer(header, frame, body_offset, told=self._told)
            if header.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                raise UnsupportedRequest(f"API {header.api_key} before SASL authentication")
            if exchange is None:
                exchange = early.session = SaslExchange(self._policy)
            step = exchange.on_request(header, frame, body_offset)
        if step.failure:
            return Dismiss(step.answer, step.failure)
        if step.principal:
            early.session = None
            early.identity = self._known(early.identity, step.principal)
        early.take_bare_tokens(exchange.expects_bare_token and not step.principal)
        return step.answer
