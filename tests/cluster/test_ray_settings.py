"""A Ray cluster whose settings would kill the tier is refused with the settings' names and what would do."""

from __future__ import annotations

import pytest

from cluster.ray_settings import PERIOD_MS, RECONNECT_S, THRESHOLD, problems

PATIENT = {THRESHOLD: "200", PERIOD_MS: "3000", RECONNECT_S: "3600"}


def test_a_patient_cluster_is_taken() -> None:
    assert problems("10.0.0.1", {"10.0.0.1": PATIENT, "10.0.0.2": PATIENT}) == []


def test_what_only_the_head_reads_may_be_missing_elsewhere() -> None:
    assert problems("10.0.0.1", {"10.0.0.1": PATIENT, "10.0.0.2": {RECONNECT_S: "600"}}) == []


def test_the_defaults_of_ray_would_kill_the_tier_twice() -> None:
    health, reconnect = problems("10.0.0.1", {"10.0.0.1": {}, "10.0.0.2": {}})
    assert health.startswith(
        "RAY_health_check_failure_threshold (5) times RAY_health_check_period_ms (3000) on 10.0.0.1, the head"
    )
    assert "cut off for 15 s is given up" in health
    assert health.endswith("200 times 3000 would do")
    assert reconnect.startswith(
        "RAY_gcs_rpc_server_reconnect_timeout_s (60 on 10.0.0.1, 60 on 10.0.0.2): a machine ends"
    )


def test_one_hasty_machine_is_named() -> None:
    told = {"10.0.0.1": PATIENT, "10.0.0.2": {**PATIENT, RECONNECT_S: "599"}}
    [problem] = problems("10.0.0.1", told)
    assert "(599 on 10.0.0.2)" in problem


@pytest.mark.parametrize("text", ["", "many", "-5", "1e3"])
def test_what_is_no_number_counts_as_not_given(text: str) -> None:
    [problem] = problems("10.0.0.1", {"10.0.0.1": {**PATIENT, THRESHOLD: text}})
    assert "(5) times" in problem
