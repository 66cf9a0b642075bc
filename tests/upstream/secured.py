"""A real Kafka at which everybody logs in, and may do what rules say: how it is made, and its users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
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
from actors.upstream.controllers import Address, listed
from bench.attached.site import BROKERS, CONTROLLERS, HEAP, SETTINGS, Ground
from bench.peers.kafka_nodes import HOST, KafkaNodes
from cluster.attaching.rights import (
    CLUSTER,
    CLUSTER_RIGHTS,
    CREATE_RIGHT,
    TOPICS,
    TOPICS_RIGHT,
    TRANSACTIONS_RIGHT,
    Right,
)
from tests.authority import Authority
from tests.kafka.logins import PLAIN, SCRAM, java_login, java_stores, write_properties
from tests.polling import until

LISTENER: Final = "CLIENTS"
INTERNAL: Final = "INTERNAL"
"""The name of the brokers' own listener, if they have one."""
BROKER, ADMIN, TIER, CLIENT = "broker", "admin", "tier", "client"
SUPER_USERS: Final = f"User:{BROKER};User:{ADMIN}"
MECHANISM: Final = "SCRAM-SHA-512"
WAIT_S: Final = 30.0
EVERY_RIGHT: Final = (
    *(right for _, right in (*CLUSTER_RIGHTS, *CREATE_RIGHT)),
    TOPICS_RIGHT,
    TRANSACTIONS_RIGHT,
)


def secret_of(user: str) -> str:
    return f"{user}-secret"


class SecuredNodes(KafkaNodes):
    """Brokers whose users log in by SCRAM, and controllers with a list of passwords (PLAIN) for themselves
    and for brokers: they cannot know SCRAM's users before one of them is elected."""

    formatting = tuple(
        flag
        for user in (BROKER, ADMIN, TIER)
        for flag in ("--add-scram", f"{MECHANISM}=[name={user},password={secret_of(user)}]")
    )

    def __init__(
        self,
        *given: Any,
        authority: Authority | None = None,
        controllers_apart: int = 0,
        has_internal: bool = False,
        **more: Any,
    ) -> None:
        """Have everybody speak TLS, by certificates that `authority` has made, if there is one; only brokers
        do not among themselves, if they have a listener of their own."""
        super().__init__(*given, **more)
        self.has_internal = has_internal
        self.controllers_apart = controllers_apart
        self.authority = authority
        self.protocol = "SASL_PLAINTEXT" if authority is None else "SASL_SSL"

    def at(self, number: int) -> Address:
        """The address at which a broker listens for clients."""
        return (HOST, self.clients_port(number)) if self.has_internal else self.address(number)

    def _lines(self, number: int) -> str:
        if self.has_internal:
            self._advertised = [self.at(each) for each in self.numbers]
        brokers = INTERNAL if self.has_internal else LISTENER
        protocols = {"CONTROLLER": self.protocol, LISTENER: self.protocol}
        if self.has_internal:
            protocols[INTERNAL] = "SASL_PLAINTEXT"
        login = f'username="{BROKER}" password="{secret_of(BROKER)}"'
        scram = f"{SCRAM} required {login};"
        known = " ".join(f'user_{user}="{secret_of(user)}"' for user in (BROKER, TIER))
        settings = {
            "inter.broker.listener.name": brokers,
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, how in protocols.items()),
            "sasl.enabled.mechanisms": f"SCRAM-SHA-256,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} required {login} {known};",
            **{
                f"listener.name.{name.lower()}.scram-sha-{bits}.sasl.jaas.config": scram
                for bits in (256, 512)
                for name in ("CONTROLLER", INTERNAL, LISTENER)
            },
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": SUPER_USERS,
        }
        if self.authority is not None:
            stores = {"keystore": self.authority.certify(f"kafka-{number}").both}
            settings |= java_stores(stores | {"truststore": self.authority.path})
        lines = super()._lines(number).replace("PLAINTEXT://", f"{brokers}://")
        return lines + "".join(f"{name}={value}\n" for name, value in settings.items())

    def client_of(self, bootstrap: str, user: str) -> dict[str, Any]:
        """The settings of a client of librdkafka's."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": self.protocol,
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": secret_of(user),
            **({} if self.authority is None else {"ssl.ca.location": str(self.authority.path)}),
        }

    def java_client_of(self, user: str) -> dict[str, str]:
        """The settings with which a user logs in by a client of Kafka's own."""
        return java_login(MECHANISM, user, secret_of(user), self.authority)

    def login_of(self, user: str, mechanism: str = MECHANISM, *, is_internal: bool = False) -> Login:
        authority = None if is_internal else self.authority
        return Login(
            is_encrypted=authority is not None,
            mechanism=mechanism,
            user=user,
            password=secret_of(user),
            ca=None if authority is None else str(authority.path),
        )

    @asynccontextmanager
    async def wired_as(
        self, user: str, address: Address, *, is_internal: bool = False
    ) -> AsyncIterator[Wire]:
        """A user's connection, closed afterwards."""
        wire, _ = await connector("story", self.login_of(user, is_internal=is_internal))(address)
        try:
            yield wire
        finally:
            await wire.close()

    def write_logins(self, directory: Path) -> tuple[Path, Path]:
        """Files with which the tier logs in at brokers and at controllers: there by PLAIN, or by SCRAM where
        everybody speaks TLS."""
        brokers = self.client_of("", TIER)
        del brokers["bootstrap.servers"]
        mechanism = "PLAIN" if self.authority is None else MECHANISM
        files = {"brokers": brokers, "controllers": {**brokers, "sasl.mechanism": mechanism}}
        paths = [write_properties(directory / f"{name}.properties", each) for name, each in files.items()]
        return paths[0], paths[1]

    def tier_flags(self, directory: Path) -> tuple[str, ...]:
        """The flags of a tier that logs in, and is guarded, as these brokers are at the clients' listener."""
        brokers, controllers = self.write_logins(directory)
        logins = ("--upstream-config", str(brokers), "--controllers-config", str(controllers))
        return (*logins, *self.tier_settings())

    def tier_settings(self) -> tuple[str, ...]:
        """The flags that such a tier is given with each start."""
        stores = {}
        if self.authority is not None:
            stores = {"keystore": self.authority.certify("tier").both, "truststore": self.authority.path}
        settings = {"upstream.listener.name": LISTENER, "super.users": SUPER_USERS} | java_stores(stores)
        return tuple(f"--set={name}={value}" for name, value in settings.items())


class SecuredGround(Ground):
    """Three brokers and three controllers for a story, at which everybody logs in over TLS, and may do what
    rules say."""

    def __init__(self, authority: Authority, directory: Path) -> None:
        super().__init__()
        self._authority = authority
        self._directory = directory

    def nodes(self, home: Path | None) -> KafkaNodes:
        """Return the processes of Kafka's."""
        made = partial(SecuredNodes, authority=self._authority, controllers_apart=CONTROLLERS)
        self._nodes = made(BROKERS, SETTINGS, home, heap=HEAP)
        self.connect = connector("story", self._nodes.login_of(BROKER, "PLAIN"))
        return self._nodes

    def open(self, nodes: KafkaNodes) -> None:
        """Make the clients' user, and rules for it and for the tier's."""
        admin = Administrator(self._nodes)
        until(admin.is_let_in, "the cluster lets its administrator in")
        admin.add_user(CLIENT)
        topics = ("READ", "WRITE", "CREATE")
        admin.give(CLIENT, *((ResourceType.TOPIC, "*", operation) for operation in topics))
        admin.give(CLIENT, (ResourceType.GROUP, "*", "READ"), (ResourceType.TRANSACTIONAL_ID, "*", "WRITE"))
        admin.give_rights(EVERY_RIGHT)

    def tier_flags(self) -> Sequence[str]:
        """Return what a tier is told of users and certificates."""
        return self._nodes.tier_flags(self._directory)

    def login(self, program: str) -> Mapping[str, str]:
        """Return how the clients' user logs in."""
        if program == "Java":
            return self._nodes.java_client_of(CLIENT)
        login = self._nodes.client_of("", CLIENT)
        del login["bootstrap.servers"]
        if program in ("aio", "kafka_python"):
            names = {"username": "plain.username", "password": "plain.password", "ca.location": "cafile"}
            for old, new in names.items():
                login = {name.replace(old, new): value for name, value in login.items()}
        return login


class Administrator:
    """Makes users and rules, at the brokers."""

    def __init__(self, nodes: SecuredNodes) -> None:
        self.client = AdminClient(nodes.client_of(listed(map(nodes.at, nodes.numbers)), ADMIN))

    def is_let_in(self) -> bool:
        """Whether a broker answers."""
        try:
            self.client.list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

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
