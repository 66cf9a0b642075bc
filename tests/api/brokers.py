"""Brokers without sockets: real handlers, real logs, a real metadata shard; requests and answers as bytes.

Every request is written and every answer is read by kio's own codec, so a handler that leaves out a field
of any version fails here.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

from kio.serial import entity_reader, entity_writer

from actors.api.broker_apis import BrokerApis
from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.catalog.table import APIS
from actors.ground.spec import BrokerSettings
from actors.metadata.commands import Command, CommandResult, ReportLeader
from actors.protocol.api_keys import DESCRIBE_CONFIGS
from actors.protocol.header import Header
from actors.topics.logs import TopicLogs
from tests.metadata.driver import Host, tier
from tests.topics.store import Memory

NO_WAIT = timedelta(0)
CORRELATION_ID = 77


def versions(api_key: int) -> range:
    """The versions of an API that are advertised."""
    return APIS[api_key].versions


class Controller:
    """A controller that commits at once and sends the image to every broker, unless a test has it fail or
    keep images back."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.brokers: list[Broker] = []
        self.submitted: list[Command] = []
        self.failure: Exception | None = None
        self.refusal: CommandResult | None = None
        self.keeps_images = False

    async def submit(self, command: Command) -> CommandResult:
        self.submitted.append(command)
        if self.failure is not None:
            raise self.failure
        if self.refusal is not None:
            return self.refusal
        return self.decide(command)

    def decide(self, command: Command) -> CommandResult:
        result: CommandResult = self.host.submit(command)
        if not self.keeps_images:
            self.send_images()
        return result

    def send_images(self) -> None:
        for broker in self.brokers:
            broker.apis.set_image(self.host.shard.image())


class Broker:
    def __init__(self, controller: Controller, node_id: int, settings: BrokerSettings) -> None:
        self.node_id = node_id
        self.store = Memory()
        self.logs = TopicLogs(settings, "", store=self.store)
        self.now_ms = 50_000
        self.context = BrokerContext(
            node_id=node_id,
            settings=settings,
            controller=controller,
            logs=self.logs,
            clock_ms=lambda: self.now_ms,
        )
        self.apis = BrokerApis(self.context)

    async def ask(self, api_key: int, version: int, /, **fields: Any) -> Any:
        """The answer to a request with those of `fields` that its version has; None if there is none."""
        request_class = codec.request_class(api_key, version)
        written = io.BytesIO()
        entity_writer(request_class)(written, codec.build(request_class, **fields))
        header = Header(api_key, version, CORRELATION_ID, "test")
        answer = await self.apis.handle(header, codec.decode_entity(header, written.getvalue(), 0))
        if answer is None:
            return None
        return read_answer(api_key, version, codec.encode_entity(api_key, version, CORRELATION_ID, answer))


async def describe_configs(
    broker: Broker, version: int, kind: int, name: str, keys: tuple[str, ...] | None = None
) -> Any:
    """Ask for the configs of one resource; `keys` None asks for all of them. Returns the resource's
    result."""
    resource = part(
        DESCRIBE_CONFIGS,
        version,
        "DescribeConfigsResource",
        resource_type=kind,
        resource_name=name,
        configuration_keys=keys,
    )
    answer = await broker.ask(
        DESCRIBE_CONFIGS,
        version,
        resources=(resource,),
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def read_answer(api_key: int, version: int, frame: bytes) -> Any:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    response_class = codec.response_class(api_key, version)
    header, header_bytes = entity_reader(response_class.__header_schema__)(frame, 4)
    assert header.correlation_id == CORRELATION_ID
    entity, body_bytes = entity_reader(response_class)(frame, 4 + header_bytes)
    assert 4 + header_bytes + body_bytes == len(frame)
    return entity


def part(api_key: int, version: int, name: str, /, **fields: Any) -> Any:
    """Make a nested entity of a request."""
    return codec.build(codec.nested(api_key, version, name, "request"), **fields)


def brokers(
    settings: BrokerSettings | None = None, nodes: tuple[int, ...] = (1, 2, 3)
) -> tuple[Controller, list[Broker]]:
    """Make a tier of these nodes; node n leads every offsets partition p with p % 3 + 1 == n."""
    settings = settings or BrokerSettings()
    host = tier(settings, nodes)
    for partition in range(4):
        host.submit(ReportLeader(partition, partition % len(nodes) + 1, 1))
    controller = Controller(host)
    controller.brokers = [Broker(controller, node_id, settings) for node_id in nodes]
    controller.send_images()
    return controller, controller.brokers
