"""A tier of three machines gets a fourth, loses its first one for good, and goes on as three."""

from __future__ import annotations

import json

import pytest

from bench.chaos.targets.machine_site import CALLED, PORT, MachineSite
from bench.chaos.targets.operating import operate
from bench.chaos.targets.stand import Machine
from tests.chaos.load import Load
from tests.machines.operator import groupd, nodes
from tests.polling import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]

EVEN_S = 120.0


def wait_until_even(site: MachineSite, node_ids: set[int]) -> None:
    def even() -> bool:
        found = nodes(site)
        held = [row["replicas"] for row in found.values()]
        return set(found) == node_ids and max(held) - min(held) <= 2 and min(held) > 0

    until(even, f"nodes {node_ids} share the work", EVEN_S)


def check_refused(site: MachineSite) -> None:
    """Check what is said of machines that cannot have a node."""
    at = f"{site.machines.all[0].host}:{PORT}"
    wrong = [
        (["add"], "--machine is missing"),
        (["add", "--machine", "10.99.99.99:9900"], "10.99.99.99:9900 is none of the machines"),
        (["add", "--machine", at, "--port", "9092"], "is node 1's"),
        (
            ["add", "--machine", at, "--host", "10.99.99.99"],
            "cannot listen on 10.99.99.99",
        ),
        (["add", "--machine", at, "--host", "127.0.0.1"], "cannot be reached from"),
        (["remove", "2", "--lost"], "node 2 answers, so it is not lost"),
        (["drain", "2"], "without node 2 there are 2 nodes for the 3 copies"),
    ]
    before = nodes(site)
    for arguments, said in wrong:
        done = operate(site.data_dir, "nodes", *arguments)
        assert done.returncode == 1
        assert said in done.stderr
    assert nodes(site) == before


def test_a_fourth_machine_comes_and_the_first_is_lost_for_good(site: MachineSite) -> None:
    site.wait_until_whole()
    with Load(site) as load:
        check_refused(site)
        fourth = site.machines.add()
        added = json.loads(groupd(site, "nodes", "add", "--machine", f"{fourth.host}:{PORT}", "--json"))
        wait_until_even(site, {1, 2, 3, added["node_id"]})
        load.progress()
        first = site.machines.all[0]
        first.lose_power()
        until(lambda: not nodes(site)[1]["alive"], "node 1 is silent", EVEN_S)
        load.progress()
        groupd(site, "nodes", "remove", "1", "--lost")
        wait_until_even(site, {2, 3, added["node_id"]})
        site.wait_until_whole()
        load.progress()
        load.check()
    assert {row["host"] for row in nodes(site).values()} == {m.host for m in site.machines.all[1:]}


def test_what_was_lost_and_comes_back_is_no_part_of_the_tier(site: MachineSite) -> None:
    """A machine's agent starts what it had, and the controller ends that."""
    first = site.machines.all[0]
    site.machines.boot_again(first)
    until(lambda: not site_actors(site, first), "nothing of the tier runs there", EVEN_S)
    site.wait_until_whole()
    assert 1 not in nodes(site)
    first.lose_power()


def test_a_machine_that_comes_back_under_another_address_is_the_same_node(site: MachineSite) -> None:
    site.wait_until_whole()
    second = site.machines.all[1]
    before = nodes(site)[2]
    with Load(site, "moved", [(row["host"], row["port"]) for row in nodes(site).values()]) as load:
        second.lose_power()
        load.progress()
        host = f"{second.host}7"
        site.machines.boot_elsewhere(second, host)
        until(lambda: nodes(site)[2]["host"] == host and nodes(site)[2]["alive"], "node 2 is there", EVEN_S)
        site.wait_until_whole()
        load.progress()
        load.check()
    after = nodes(site)[2]
    assert (after["machine"], after["port"]) == (f"{host}:{PORT}", before["port"])
    assert after["replicas"] == before["replicas"]


def test_a_whole_start_does_not_wait_for_a_machine_that_is_away(site: MachineSite) -> None:
    site.wait_until_whole()
    *_, last = site.machines.all
    last.lose_power()
    operate(site.data_dir, "down")  # it says that the machine which is away may still run its part
    at = site.machines.all[1]
    shown = json.loads(groupd(site, "up", "--detach", "--machine", f"{at.host}:{PORT}", "--json"))
    assert [
        warning for warning in shown["warnings"] if "its machine" in warning and "does not answer" in warning
    ]
    site.machines.boot_again(last)
    site.wait_until_whole()


def test_a_start_from_an_old_directory_has_what_the_machines_know(site: MachineSite) -> None:
    """The tier was split by somebody who has only its address. Whoever starts it next does not know."""
    site.wait_until_whole()
    known = (site.data_dir / "tier.json").read_bytes()
    before = len(site.summary()["partitions"])
    split = site.machines.all[1].groupd("partitions", "split", "--bootstrap", site.bootstrap)
    assert split.returncode == 0, split.stderr
    groupd(site, "down")
    (site.data_dir / "tier.json").write_bytes(known)
    (site.data_dir / "placement.json").unlink(missing_ok=True)
    at = site.machines.all[1]
    shown = json.loads(groupd(site, "up", "--detach", "--machine", f"{at.host}:{PORT}", "--json"))
    site.wait_until_whole()
    assert len(site.summary()["partitions"]) == 2 * before
    assert not [warning for warning in shown["warnings"] if "begins anew" in warning]


def site_actors(site: MachineSite, machine: Machine) -> list[str]:
    """The actors that a machine keeps for a tier."""
    folder = machine.disk / CALLED / "actors" / site.namespace
    return sorted(path.name for path in folder.glob("*.actor"))
