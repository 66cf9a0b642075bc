"""Whatever happens to one machine of three: service goes on, nothing is lost, and the machine comes back into
the tier by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest

from bench.chaos.faults import KINDS
from bench.chaos.faults.machines import NEEDS
from bench.chaos.targets.machine_site import CALLED, PORT, MachineSite
from bench.chaos.targets.stand import Machine
from tests.chaos.load import Load
from tests.machines.operator import let_pass
from tests.polling import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]

MACHINE_KINDS = [name for name, kind in KINDS.items() if kind.needs == NEEDS]
LONG_CUT_S = 100.0
"""Longer than any time after which Ray would give up a machine that it cannot reach."""
BACK_S = 180.0
UNSEEN = {"machine-disk-full"}
"""Faults that no other machine notices: the agent needs no room on its disk to answer."""


@pytest.fixture(scope="module")
def load(site: MachineSite) -> Iterator[Load]:
    with Load(site) as members:
        yield members


def check_whole(site: MachineSite, load: Load) -> None:
    """Check that the tier comes back whole and that no group lost a commit or a membership."""
    site.wait_until_whole(BACK_S)
    load.progress()
    load.check()


@pytest.mark.parametrize("name", MACHINE_KINDS)
def test_groups_go_on_and_the_machine_comes_back(site: MachineSite, load: Load, name: str) -> None:
    site.wait_until_whole(BACK_S)
    load.progress()
    before = pids(site)
    injury = KINDS[name].begin(site, Random(name), 1.0)

    def is_noticed() -> bool:
        # Who asks slowly finds a machine that has begun anew already.
        is_anew = any(before.get(name, pid) != pid for name, pid in pids(site).items())
        return is_anew or somebody_is_silent(site)

    try:
        if name not in UNSEEN:
            until(is_noticed, f"others notice what happens to {injury.target}", BACK_S)
        load.progress()
    finally:
        injury.undo()
    check_whole(site, load)


def test_the_machine_where_the_tier_began_is_cut_off_for_long(site: MachineSite, load: Load) -> None:
    """Whoever shares a Ray cluster's directory loses every machine after such a cut."""
    site.wait_until_whole(BACK_S)
    first = site.machines.all[0]
    first.cut()
    try:
        load.progress()
        acknowledged = load.acknowledged()
        let_pass(LONG_CUT_S)
        assert all(after > before for after, before in zip(load.acknowledged(), acknowledged, strict=True))
    finally:
        first.mend()
    check_whole(site, load)


def test_who_comes_to_an_empty_disk_has_a_new_name(site: MachineSite, load: Load) -> None:
    """Under the old name it would vote for a leader that lacks what it had acknowledged. The tier has not
    been started a second time: its controllers were made when it was new."""
    site.wait_until_whole(BACK_S)
    before = member_ids(site)
    KINDS["machine-replaced"].begin(site, Random(1), 1.0).undo()
    check_whole(site, load)
    renamed = [name for name, member_id in member_ids(site).items() if member_id != before[name]]
    assert renamed
    assert len(renamed) == len(before) / len(site.machines.all)


def test_one_machine_lost_after_the_other(site: MachineSite, load: Load) -> None:
    """The second is lost when the first is back: the first one's replicas are those that carry the groups."""
    for machine in site.machines.all[1:]:
        site.wait_until_whole(BACK_S)
        machine.lose_power()
        load.progress()
        site.machines.boot_again(machine)
    check_whole(site, load)


def test_a_tier_comes_back_after_all_machines_lost_their_power(site: MachineSite, load: Load) -> None:
    site.wait_until_whole(BACK_S)
    site.machines.lose_all_power()
    check_whole(site, load)


def test_commands_work_on_any_machine_that_knows_the_tier(site: MachineSite, load: Load) -> None:
    """The machine that is asked first is away: the next one answers."""
    site.wait_until_whole(BACK_S)
    away = site.machines.all[0]
    away.cut()
    try:
        until(lambda: site.summary()["nodes"][1]["pid"] is not None, "another machine is asked", BACK_S)
        listed = site.machines.all[1].groupd("machine", "list", "--dir", str(away.home / CALLED), "--json")
        until(lambda: '": false' in listed_now(site.machines.all[1]), "it is told which is away", BACK_S)
        assert f'"{away.host}:{PORT}"' in listed.stdout
    finally:
        away.mend()


def test_a_node_is_asked_from_any_machine(site: MachineSite, load: Load) -> None:
    """A machine is cut off: its node is silent, and its agent is away. Who asks has nothing but addresses."""
    site.wait_until_whole(BACK_S)
    away, *_, other = site.machines.all
    away.cut()
    try:

        def away_is_told() -> bool:
            asked = other.groupd("status", "--json", "--bootstrap", site.bootstrap)
            if not asked.stdout:
                return False
            found = {node["host"]: node for node in json.loads(asked.stdout)["nodes"]}
            node = found[away.host]
            return node["state"] == "silent" and node["machine_answers"] is False

        until(away_is_told, "the machine that is away is told", BACK_S)
        assert other.groupd("leaders", "--bootstrap", site.bootstrap).returncode == 0
    finally:
        away.mend()


def member_ids(site: MachineSite) -> dict[str, str]:
    """The member id of each replica, by the name of its actor."""
    statuses = site.statuses()
    return {name: status["member_id"] for name, status in statuses.items() if "member_id" in status}


def pids(site: MachineSite) -> dict[str, int]:
    """The process of each actor that answers, by the actor's name."""
    return {actor.name: actor.pid for actor in site.actors()}


def somebody_is_silent(site: MachineSite) -> bool:
    """Whether an agent says that another one does not answer it."""
    return any('": false' in listed_now(machine) for machine in site.machines.all if machine.has_power)


def listed_now(machine: Machine) -> str:
    return str(machine.groupd("machine", "list", "--dir", str(machine.home / CALLED), "--json").stdout)
