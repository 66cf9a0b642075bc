"""Judge the settings of a Ray cluster that was there before the tier: with some it would kill the tier. Pure.

Ray's directory (its GCS) gives up a machine that it cannot reach for a while, and tells it so when it can
again: then the machine's Ray ends, with every actor on it. And a machine that cannot reach the directory for
a while ends its Ray by itself. Both are measured: with Ray's own defaults a head that was cut off for 100
seconds takes the whole tier down, 20 seconds after it is back. Ray reads these settings when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PREFIX: Final = "RAY_"
"""What the names of Ray's settings begin with in the environment in which `ray start` runs."""
THRESHOLD: Final = "health_check_failure_threshold"
PERIOD_MS: Final = "health_check_period_ms"
RECONNECT_S: Final = "gcs_rpc_server_reconnect_timeout_s"
DEFAULTS: Final[Mapping[str, int]] = MappingProxyType({THRESHOLD: 5, PERIOD_MS: 3_000, RECONNECT_S: 60})
"""Ray's own, of the version that pyproject.toml names."""
SILENCE_S_MIN: Final = 600
"""How long, in seconds, a machine must be allowed to be silent, and the directory to be away."""

Settings = Mapping[str, str]


def problems(head: str, machines: Mapping[str, Settings]) -> list[str]:
    """Return what would kill the tier, in words that say what to do; nothing if all is well.

    `machines` says what each machine's Ray was told, by the address of the machine; `head` is the address of
    the one that has the directory. What is no number counts as not given, as Ray has it.
    """
    found = []
    threshold, period_ms = (_value(machines.get(head, {}), name) for name in (THRESHOLD, PERIOD_MS))
    if threshold * period_ms < SILENCE_S_MIN * 1_000:
        wanted = -(-SILENCE_S_MIN * 1_000 // max(period_ms, 1))
        found.append(
            f"{PREFIX}{THRESHOLD} ({threshold}) times {PREFIX}{PERIOD_MS} ({period_ms}) on {head}, the head: "
            f"a machine that is cut off for {threshold * period_ms / 1_000:g} s is given up, and ends with "
            f"all its actors when it is back; {wanted} times {period_ms} would do"
        )
    hasty = {address: _value(told, RECONNECT_S) for address, told in sorted(machines.items())}
    hasty = {address: seconds for address, seconds in hasty.items() if seconds < SILENCE_S_MIN}
    if hasty:
        where = ", ".join(f"{seconds} on {address}" for address, seconds in hasty.items())
        found.append(
            f"{PREFIX}{RECONNECT_S} ({where}): a machine ends with all its actors when the head has been "
            f"away for so many seconds; {SILENCE_S_MIN} or more would do"
        )
    return found


def _value(told: Settings, name: str) -> int:
    text = told.get(name, "").strip()
    return int(text) if text.isdecimal() else DEFAULTS[name]
