"""Connect to the brokers of a Kafka: bootstrap, coordinators, leaders, and versions that both speak."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from actors.network.sasl_client import LoginRefused
from actors.network.wire import Closed, Wire, message_class
from actors.upstream.connecting import NotUnderstood, connected
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

TIMEOUT_S: Final = 15.0
"""How long, in seconds, one request may take, and all tries together to find a coordinator or leader."""
RETRY_INTERVAL_S: Final = 0.1
SPOKEN: Final[dict[str, tuple[int, ...]]] = {
    "metadata": (9,),
    "find_coordinator": (4,),
    "list_groups": (5, 4),
    "describe_groups": (6, 5),
    "consumer_group_describe": (1, 0),
    "offset_fetch": (8,),
    "offset_commit": (8,),
    "offset_delete": (0,),
    "delete_groups": (2,),
    "delete_topics": (6,),
    "consumer_group_heartbeat": (1,),
    "list_offsets": (7, 6),
    "leave_group": (5, 4),
    "describe_configs": (4,),
    "incremental_alter_configs": (1,),
    "describe_log_dirs": (4, 3, 2),
    "describe_transactions": (0,),
    "fetch": (12,),
}
"""API -> the versions that our calls are written for, the preferred one first: those of Kafka 3.0 and
later."""
NOT_NOW: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unstable_offset_commit,
    }
)
"""The errors after which it helps to ask again, perhaps somebody else."""

Address = tuple[str, int]
Answer = dict[str, Any]
T = TypeVar("T")


class Unsupported(TierError):
    """Raised if the broker does not speak the API in a version that is spoken here."""


class NoSuchGroup(TierError):
    """Raised for GROUP_ID_NOT_FOUND, or what older brokers say instead."""


class Kafka:
    """A Kafka, reached through any of its brokers. It is an asynchronous context manager.

    Every method raises TierError in words for the user.
    """

    def __init__(self, properties: ClientProperties) -> None:
        self.properties = properties
        self._tls = properties.tls()
        self._wires: dict[Address, tuple[Wire, dict[int, tuple[int, int]]]] = {}
        self._coordinators: dict[str, Address] = {}

    async def __aenter__(self) -> Kafka:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for wire, _ in self._wires.values():
            await wire.close()
        self._wires.clear()

    async def call(self, address: Address, api: str, /, **fields: Any) -> Answer:
        """Ask one broker and return its answer. `fields` that the version lacks are left out."""
        wire, offered = await self._wire(address)
        version = _version(api, offered, address)
        known = message_class(api, version, "request").__dataclass_fields__
        given = {name: value for name, value in fields.items() if name in known}
        try:
            return await wire.call(api, version, timeout_s=TIMEOUT_S, **given)
        except (Closed, OSError):
            reason = f"hung up instead of answering {api}"
        except TimeoutError:
            reason = f"did not answer {api} within {TIMEOUT_S:.0f} s"
        del self._wires[address]  # the broker's further answers would come out of order
        await wire.close()
        raise TierError(f"{_words(address)} {reason}")

    async def any(self, api: str, /, **fields: Any) -> Answer:
        """Ask any broker and return its answer."""
        return await self.call(await self._bootstrap(), api, **fields)

    async def of_group(
        self, group_id: str, api: str, ask: Callable[[Answer], ErrorCode], /, **fields: Any
    ) -> Answer:
        """Ask a group's coordinator, again while it is none; `ask` finds the error code in an answer."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            address = await self.coordinator(group_id)
            answer = await self.call(address, api, **fields)
            if ask(answer) not in NOT_NOW or time.monotonic() > deadline:
                return answer
            self._coordinators.pop(group_id, None)
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def coordinator(self, group_id: str) -> Address:
        deadline = time.monotonic() + TIMEOUT_S
        while group_id not in self._coordinators:
            answer = await self.any("find_coordinator", key_type=0, coordinator_keys=[group_id])
            (found,) = answer["coordinators"]
            if found["error_code"] == ErrorCode.none:
                self._coordinators[group_id] = (found["host"], found["port"])
            elif found["error_code"] not in NOT_NOW or time.monotonic() > deadline:
                raise refused(f"coordinator of {group_id}", found["error_code"], found["error_message"])
            else:
                await asyncio.sleep(RETRY_INTERVAL_S)
        return self._coordinators[group_id]

    async def _bootstrap(self) -> Address:
        if self._wires:
            return next(iter(self._wires))
        errors = []
        for address in self.properties.addresses:
            try:
                await self._wire(address)
            except TierError as error:
                errors.append(str(error))
            else:
                return address
        raise TierError("; ".join(errors))

    async def _wire(self, address: Address) -> tuple[Wire, dict[int, tuple[int, int]]]:
        if address not in self._wires:
            self._wires[address] = await opened(address, self.properties, self._tls)
        return self._wires[address]


async def opened(
    address: Address, properties: ClientProperties, tls: ssl.SSLContext | None
) -> tuple[Wire, dict[int, tuple[int, int]]]:
    """Connect to a broker as the properties say. Return the connection, and the versions of each API that the
    broker offers. Raises TierError."""
    try:
        wire, versions = await connected(address, properties.client_id, properties.login(), tls)
    except LoginRefused as error:
        raise TierError(str(error)) from None
    except NotUnderstood as error:
        raise TierError(f"{_words(address)} {error}") from None
    except OSError as error:  # a TimeoutError is one
        reason = error.strerror or str(error) or "no answer"
        raise TierError(f"no Kafka answers at {_words(address)} ({reason})") from None
    return wire, dict(versions)


def run(properties: ClientProperties, work: Callable[[Kafka], Coroutine[Any, Any, T]]) -> T:
    """Do `work` with a Kafka, for a caller that is not asynchronous. Raises TierError."""

    async def connected() -> T:
        async with Kafka(properties) as kafka:
            return await work(kafka)

    return asyncio.run(connected())


def refused(what: str, error_code: ErrorCode, message: str | None = None) -> TierError:
    """Return an error of Kafka's in plain words."""
    words = PLAIN_WORDS.get(error_code)
    said = words or message or error_code.name.replace("_", " ")
    return TierError(f"{what}: {said} ({error_code.name.upper()})")


PLAIN_WORDS: Final[dict[ErrorCode, str]] = {
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group has members: stop them first",
    ErrorCode.unknown_member_id: "the group has members, or has none of that name",
    ErrorCode.group_subscribed_to_topic: "the group's members are subscribed to the topic",
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.group_authorization_failed: "the user may not do that to the group",
    ErrorCode.topic_authorization_failed: "the user may not do that to the topic",
    ErrorCode.invalid_group_id: "that is no id of a group",
    ErrorCode.offset_metadata_too_large: "the offset's metadata is too long",
}


def _version(api: str, offered: dict[int, tuple[int, int]], address: Address) -> int:
    spoken = SPOKEN[api]
    api_key = message_class(api, spoken[0], "request").__api_key__
    least, most = offered.get(int(api_key), (0, -1))
    for version in spoken:
        if least <= version <= most:
            return version
    has = f"versions {least} to {most}" if most >= 0 else "nothing"
    raise Unsupported(
        f"{_words(address)} offers {has} of {api}; version {spoken[-1]} or later is needed (Kafka 3.0)"
    )


def _words(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
