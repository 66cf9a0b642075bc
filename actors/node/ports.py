"""The ports of a node: one that all its clients know, and in front of a Kafka cluster perhaps a second one,
for the listeners at which the cluster's brokers speak another protocol."""

from __future__ import annotations

from socket import socket

from actors.ground.identity import ClientIdentity
from actors.ground.spec import NodeSpec, TierSpec
from actors.network.certificates import Certificates
from actors.network.early import Decide
from actors.network.listener import Listener, PortSecurity
from actors.network.quota import ConnectionQuota
from actors.network.table import ConnectionTable


class Ports:
    """The listeners of a node. What they accept is decided and counted together. Raises TlsUnusable."""

    def __init__(
        self,
        spec: TierSpec,
        node: NodeSpec,
        decide: Decide,
        kept: tuple[ConnectionTable, ConnectionQuota],
        certificates: Certificates | None,
    ) -> None:
        """`certificates` are those of the port that all clients know."""
        upstream, protocol = spec.upstream, spec.broker.listener_security_protocol
        name = "" if upstream is None else upstream.listener
        security = [(node.port, PortSecurity(protocol, certificates, name))]
        if upstream is not None and upstream.other_protocol:
            settings = spec.broker._replace(listener_security_protocol=upstream.other_protocol)
            others = PortSecurity(
                upstream.other_protocol, Certificates.of(settings, node.host), upstream.other_listeners[0]
            )
            security.append((node.port + upstream.other_port_shift, others))
        self._listeners = [
            Listener((node.host, port), decide, *kept, security=each) for port, each in security
        ]

    async def start(self) -> None:
        """Accept from now on. Raises OSError."""
        for listener in self._listeners:
            await listener.start()

    def close(self) -> None:
        """Accept nothing more."""
        for listener in self._listeners:
            listener.close()

    def take_back(self, client: socket, identity: ClientIdentity, buffered: bytes) -> None:
        """Take back a connection that was handed over, whichever port it came by."""
        self._listeners[0].take_back(client, identity, buffered)
