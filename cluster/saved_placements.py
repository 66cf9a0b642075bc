"""Find out where a stopped tier's replicas are: machines that had a replica of the controller have noted it.

The directory in which `groupd up` is given need not be on one of these machines. What it says of replicas is
then as old as the last command that wrote it down there.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from actors import runtime
from actors.controller import placement_file
from actors.controller.placement_file import SavedPlacement
from actors.runtime import ActorCallError
from cluster import tier_file
from cluster.tier_actors import MACHINE_TIMEOUT_S
from cluster.tier_file import TierFile


def newest(tier: TierFile, data_dir: Path) -> TierFile:
    """Return `tier` with its replicas as the machines that answer know them, if that is newer. Blocks."""
    for machine in _answering():
        with suppress(ActorCallError, TimeoutError):  # what one does not tell another one knows
            saved = runtime.run_on_machine(machine, saved_in, (str(data_dir),), MACHINE_TIMEOUT_S)
            tier = tier if saved is None else tier_file.with_saved(tier, saved)
    return tier


def forget(data_dir: Path) -> None:
    """Have the machines that answer remove what they noted: what a tier notes after a loss may look older.
    Blocks."""
    for machine in _answering():
        with suppress(ActorCallError, TimeoutError):
            runtime.run_on_machine(machine, remove_saved, (str(data_dir),), MACHINE_TIMEOUT_S)


def saved_in(data_dir: str) -> SavedPlacement | None:
    """Return what this machine has noted. Raises PlacementUnreadable."""
    return placement_file.read(Path(data_dir))


def remove_saved(data_dir: str) -> None:
    """Remove what this machine has noted. Raises OSError."""
    (Path(data_dir) / placement_file.NAME).unlink(missing_ok=True)


def _answering() -> list[str]:
    """Return the machines that answer; [] if none does, or if the tier lives in one Ray."""
    known = runtime.machines()
    if known is None:
        return []
    try:
        return [machine for machine, answers in known.list_machines().items() if answers]
    except (ActorCallError, TimeoutError):
        return []
