"""A real Kafka at which everybody logs in, and may do what rules say: how it is made, and its users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from actors.ground.login import Login
from actors.network.wire import Wire
from actors.upstream.connecting import connector
from actors.upstream.controllers import Address
from bench.peers.kafka_nodes import KafkaNodes
from cluster.attaching.rights import (
    CLUSTER,
    CLUSTER_RIGHTS,
    CREATE_RIGHT,
    TOPICS,
    TOPICS_RIGHT,
    TRANSACTIONS_RIGHT,
    Right,
)

LISTENER: Final = "CLIENTS"
BROKER, ADMIN, TIER = "broker", "admin", "tier"
SUPER_USERS: Final = f"User:{BROKER};User:{ADMIN}"
MECHANISM: Final = "SCRAM-SHA-512"
WAIT_S: Final = 30.0
EVERY_RIGHT: Final = (
    *(right for _, right in (*CLUSTER_RIGHTS, *CREATE_RIGHT)),
    TOPICS_RIGHT,
    TRANSACTIONS_RIGHT,
)
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def secret_of(user: str) -> str:
    return f"{user}-secret"


class SecuredNodes(KafkaNodes):
    """Brokers whose users log in by SCRAM, and controllers with a list of passwords (PLAIN)."""

    formatting = tuple(
        flag
        for user in (BROKER, ADMIN, TIER)
        for flag in ("--add-scram", f"{MECHANISM}=[name={user},password={secret_of(user)}]")
    )

    def _lines(self, number: int) -> str:
        login = f'username="{BROKER}" password="{secret_of(BROKER)}"'
        known = " ".join(f'user_{user}="{secret_of(user)}"' for user in (BROKER, TIER))
        settings = {
            "inter.broker.listener.name": LISTENER,
            "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": f"SCRAM-SHA-256,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} required {login} {known};",
            **{
                f"listener.name.clients.scram-sha-{bits}.sasl.jaas.config": f"{_SCRAM} required {login};"
                for bits in (256, 512)
            },
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": SUPER_USERS,
        }
        lines = super()._lines(number).replace("PLAINTEXT://", f"{LISTENER}://")
        return lines + "".join(f"{name}={value}\n" for name, value in settings.items())


def client_of(bootstrap: str, user: str) -> dict[str, Any]:
    """The settings of a client of librdkafka's."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": secret_of(user),
    }


def login_of(user: str) -> Login:
    return Login(mechanism=MECHANISM, user=user, password=secret_of(user))


@asynccontextmanager
async def wired_as(user: str, address: Address) -> AsyncIterator[Wire]:
    """A user's connection, closed afterwards."""
    wire, _ = await connector("story", login_of(user))(address)
    try:
        yield wire
    finally:
        await wire.close()


def write_logins(directory: Path) -> tuple[Path, Path]:
    """Files with which the tier logs in at brokers and at controllers."""
    files = []
    for name, mechanism in (("brokers", MECHANISM), ("controllers", "PLAIN")):
        path = directory / f"{name}.properties"
        path.write_text(
            f"security.protocol=sasl_plaintext\nsasl.mechanism={mechanism}\n"
            f"sasl.username={TIER}\nsasl.password={secret_of(TIER)}\n"
        )
        files.append(path)
    return files[0], files[1]


def write_java_login(directory: Path, user: str) -> Path:
    """A file with which a user logs in by Kafka's own tools."""
    path = directory / f"java-{user}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n"
        f'sasl.jaas.config={_SCRAM} required username="{user}" password="{secret_of(user)}";\n'
    )
    return path


class Administrator:
    """Makes users and rules, at the brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient(client_of(bootstrap, ADMIN))

    def give(self, user: str, *rules: tuple[ResourceType, str, str]) -> None:
        """Give rights: (type of resource, its name, operation)."""
        made = [_binding(user, *rule) for rule in rules]
        for future in self.client.create_acls(made).values():
            future.result(WAIT_S)

    def give_rights(self, rights: Iterable[Right]) -> None:
        """Give the tier's user rights, as the plan names them."""
        kinds = {
            CLUSTER: (ResourceType.BROKER, "kafka-cluster"),
            TOPICS: (ResourceType.TOPIC, "*"),
        }
        everything = (ResourceType.TRANSACTIONAL_ID, "*")
        rules = ((*kinds.get(each.resource, everything), each.operation) for each in rights)
        self.give(TIER, *dict.fromkeys(rules))

    def add_user(self, user: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, secret_of(user).encode())
        for future in self.client.alter_user_scram_credentials([change]).values():
            future.result(WAIT_S)

    def remove_user(self, user: str) -> None:
        change = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
        for future in self.client.alter_user_scram_credentials([change]).values():
            future.result(WAIT_S)


def _binding(user: str, kind: ResourceType, name: str, operation: str) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
