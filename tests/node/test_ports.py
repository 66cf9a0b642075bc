"""The ports of a node: clients who came by the second one are known by it, and asked what it asks."""

from __future__ import annotations

import asyncio

from actors.ground.identity import ANONYMOUS, ClientIdentity
from actors.ground.spec import SASL_PLAINTEXT, BrokerSettings, NodeSpec, TierSpec, UpstreamSpec
from actors.network.early import Decision, EarlyConnection
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable
from actors.node.ports import Ports
from cluster.ports import free_ports
from tests.network.sockets import connect, request, wire
from tests.polling import reached

HOST = "127.0.0.1"
UPSTREAM = UpstreamSpec(
    "c",
    (),
    (),
    1_000,
    "CLIENTS",
    other_listeners=("INTERNAL",),
    other_protocol=SASL_PLAINTEXT,
    other_port_shift=1,
)


def spec_of(upstream: UpstreamSpec | None) -> TierSpec:
    port = free_ports(2)
    return TierSpec(
        tier_id="tier",
        secret="secret",
        data_dir="",
        run_dir="",
        nodes=(NodeSpec(node_id=1, host=HOST, port=port),),
        placement=(),
        controllers=(),
        upstream=upstream,
    )


def test_a_client_is_asked_what_its_port_asks() -> None:
    met: list[ClientIdentity] = []

    def decide(early: EarlyConnection, frame: bytes) -> Decision:
        met.append(early.identity)
        return b""

    async def story() -> None:
        spec, limits = spec_of(UPSTREAM), ConnectionLimits()
        quota = ConnectionQuota(limits)
        table = ConnectionTable(asyncio.get_running_loop(), limits, quota.gone)
        ports = Ports(spec, spec.nodes[0], decide, (table, quota), None)
        await ports.start()
        for shift in range(2):
            client = await connect((HOST, spec.nodes[0].port + shift))
            await client.send(wire(request(1)))
            await reached(lambda count=shift: len(met) > count, "the request is decided")
            client.close()
        ports.close()

    asyncio.run(story())
    assert [(each.listener, each.principal) for each in met] == [("CLIENTS", ANONYMOUS), ("INTERNAL", "")]


def test_who_is_asked_for_a_password_is_so_at_either_port() -> None:
    """Sessions are renewed by whoever has a connection by then."""
    spec = spec_of(UPSTREAM)
    assert not spec.broker.has_sasl
    assert spec.sasl_settings.has_sasl
    assert spec_of(None).sasl_settings == BrokerSettings()
    guarded = spec._replace(broker=BrokerSettings(listener_security_protocol="SASL_SSL"))
    assert guarded.sasl_settings is guarded.broker
    assert UPSTREAM.knows_users
    assert not UPSTREAM._replace(other_protocol="").knows_users
