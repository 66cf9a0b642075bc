"""`groupd upgrade` on a tier that runs: who has which release, and what can be finalized."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.features import GROUPD_VERSION, UPGRADE
from actors.ground.release import LEVEL_MAX, RELEASE
from actors.network.wire import Wire
from bench.ground.throwaway import Tier

pytestmark = pytest.mark.clients


def groupd(tier: Tier, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cluster.cli", "upgrade", *arguments, "--data-dir", str(tier.data_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_new_tier_is_at_the_highest_level_and_every_actor_says_what_it_runs(tier: Tier) -> None:
    done = groupd(tier, "status", "--json")
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    assert (state["level"], state["possible"], state["silent"]) == (LEVEL_MAX, LEVEL_MAX, [])
    assert {each["release"] for each in state["actors"]} == {RELEASE}
    told = {each["actor"] for each in state["actors"]}
    assert {"broker-1", "broker-2", "broker-3", "controller-0", "partition-0-0"} <= told
    assert "the highest that these releases can serve" in groupd(tier, "status").stdout


def test_it_is_asked_over_the_port_alike(tier: Tier) -> None:
    over = json.loads(groupd(tier, "status", "--json", "--bootstrap", tier.bootstrap).stdout)
    assert (over["level"], over["silent"]) == (LEVEL_MAX, [])
    done = groupd(tier, "finalize", "--bootstrap", tier.bootstrap)
    assert done.returncode == 0, done.stderr


def test_what_is_finalized_already_changes_nothing(tier: Tier) -> None:
    done = groupd(tier, "finalize")
    assert done.returncode == 0, done.stderr
    assert f"is at level {LEVEL_MAX} already" in done.stdout


def test_a_level_that_nobody_can_serve_is_refused_by_name(tier: Tier) -> None:
    done = groupd(tier, "finalize", "--level", str(LEVEL_MAX + 1))
    assert done.returncode == 1
    assert f"on node 1 has groupd {RELEASE}, which serves levels 1 to {LEVEL_MAX}" in done.stderr


def test_kafkas_tools_are_refused_alike(tier: Tier) -> None:
    async def ask(level: int) -> Any:
        wire = await Wire.connect("127.0.0.1", tier.port)
        update = {"feature": GROUPD_VERSION, "max_version_level": level, "upgrade_type": UPGRADE}
        answer = await wire.call(
            "update_features", 2, timeout=10_000, feature_updates=[update], validate_only=False
        )
        await wire.close()
        return answer

    refused = asyncio.run(ask(LEVEL_MAX + 1))
    assert refused["error_code"] == ErrorCode.invalid_update_version
    assert f"The tier only supports versions 1-{LEVEL_MAX}" in refused["error_message"]
    assert asyncio.run(ask(LEVEL_MAX))["error_code"] == 0
