"""The two sides of a profile: our tier and a real broker, each ready to answer for any group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from actors.security.scram import ITERATIONS_MIN, MECHANISM_NUMBERS, SCRAM_SHA_512, salted_password
from bench.ground.throwaway import Tier
from cluster.administrator import SECRET_NAME
from cluster.ports import free_ports
from tests.oracle.broker import KafkaBroker
from tests.oracle.connection import pause
from tests.oracle.play import Address, Broken, Play
from tests.oracle.profiles import PROFILES, password_of

NOT_YET = {14, 15, 16}
READY_TIMEOUT_S = 60.0
GROUPS_ASKED = 40
"""How many groups are asked, so that every offsets partition is among theirs."""


@contextmanager
def kafka(profile: str) -> Iterator[Address]:
    """A broker of this profile, stopped afterwards."""
    with KafkaBroker(PROFILES[profile].of_kafka()) as broker:
        server = Address.of("kafka", broker.bootstrap, PROFILES[profile].login)
        wait_until_ready(server)
        yield server


@contextmanager
def tier(profile: str) -> Iterator[Address]:
    """A tier of this profile, stopped afterwards."""
    settings = PROFILES[profile].of_groupd()
    flags = [f"--set={name}={value}" for name, value in settings.items()]
    users = PROFILES[profile].users
    starting = Tier(*flags, port=free_ports(1), nodes=1)
    if users:
        (starting.data_dir / SECRET_NAME).write_text(password_of(users[0]))
    with starting as running:
        server = Address.of("groupd", running.bootstrap, PROFILES[profile].login)
        wait_until_ready(server)
        for user in users[1:]:
            _add_user(server, user)
        yield server


def _add_user(server: Address, user: str) -> None:
    salt = user.encode() * 4
    upsertion = {
        "name": user,
        "mechanism": MECHANISM_NUMBERS[SCRAM_SHA_512],
        "iterations": ITERATIONS_MIN,
        "salt": salt,
        "salted_password": salted_password(SCRAM_SHA_512, password_of(user), salt, ITERATIONS_MIN),
    }
    play = Play(server)
    try:
        altered = play.admin.quietly("alter_user_scram_credentials", 0, deletions=[], upsertions=[upsertion])
        assert altered.results[0].error_code.value == 0, altered
    finally:
        play.close()


def wait_until_ready(server: Address) -> None:
    """Wait until every offsets partition answers: Kafka makes them when the first group is looked for.
    Raises Broken with what was wrong at the end."""
    end = time.monotonic() + READY_TIMEOUT_S
    while (wrong := _unready(server)) is not None:
        if time.monotonic() > end:
            raise Broken(f"{server.name} is not ready: {wrong}")
        pause(0.1)


def _unready(server: Address) -> str | None:
    play = Play(server)
    try:
        for number in range(GROUPS_ASKED):
            group_id = f"ready-{number}"
            found = play.admin.quietly("find_coordinator", 3, key=group_id, key_type=0)
            fetched = play.admin.quietly("offset_fetch", 7, group_id=group_id, topics=[])
            if NOT_YET & {found.error_code.value, fetched.error_code.value}:
                return f"{found} {fetched}"
    except (Broken, OSError) as error:
        return str(error)
    finally:
        play.close()
    return None
