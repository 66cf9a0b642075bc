"""What a client may be served of a request, by the check that stands in the request's row."""

from __future__ import annotations

from typing import Any

from actors.catalog.table import APIS, COORDINATED
from actors.ground.identity import ClientIdentity
from actors.protocol.header import Header
from actors.security.gate import Gate
from actors.security.screening import Screened


def screen_body(gate: Gate, identity: ClientIdentity, header: Header, body: Any) -> Screened:
    """Return what may be served of a request that a coordinator answers. Raises KeyError for any other."""
    if not gate.checks and not getattr(body, "include_authorized_operations", False):
        return Screened(body)
    access = gate.access(identity.principal, identity.client_host)
    return COORDINATED[header.api_key].authorization(access, gate.image, header.api_version, body)


def screen_entity(gate: Gate, identity: ClientIdentity, header: Header, entity: Any) -> Screened:
    """Return what may be served of a request that a broker answers. Raises KeyError for an unknown one."""
    api = APIS[header.api_key]
    if api.authorization is None or not (gate.checks or api.always_screened):
        return Screened(entity)
    return api.authorization(gate.asking(identity.principal, identity.client_host), header, entity)
