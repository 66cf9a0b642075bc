"""What an operator does and looks at, by the commands, and how a test waits for what he sees."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.chaos.targets.machine_site import MachineSite
from bench.chaos.targets.operating import operate
from tests.polling import DEADLINE_S, until

LOOK_EVERY_S = 1.0


def groupd(site: MachineSite, *arguments: str, fine: Sequence[int] = (0,)) -> str:
    """Run a command as the operator. Return what it prints."""
    done = operate(site.data_dir, *arguments)
    assert done.returncode in fine, f"groupd {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def status(site: MachineSite) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(groupd(site, "status", "--json", fine=(0, 1)))
    return found


def copies(site: MachineSite) -> set[int]:
    """How many copies the groups of replicas have."""
    found = status(site)
    return {len(group["replicas"]) for group in (found["controller"], *found["partitions"])}


def nodes(site: MachineSite) -> dict[int, dict[str, Any]]:
    rows = json.loads(groupd(site, "nodes", "list", "--json", fine=(0, 1)))
    return {row["node_id"]: row for row in rows}


def look(holds: Callable[[], Any], what: str, deadline_s: float) -> None:
    """Wait as `until` does, but look no oftener than once a second: each look is a command."""
    looked_s = 0.0

    def now_and_then() -> bool:
        nonlocal looked_s
        if time.monotonic() - looked_s < LOOK_EVERY_S:
            return False
        found = bool(holds())
        looked_s = time.monotonic()
        return found

    until(now_and_then, what, deadline_s)


def let_pass(seconds: float) -> None:
    """Let groups go on for so long."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end, "time passes", seconds + DEADLINE_S)
