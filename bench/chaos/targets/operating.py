"""Commands of `groupd` that an operator gives to a tier under attack."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from cluster import child_process

COMMAND_TIMEOUT_S: Final = 600.0


def operate(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `groupd` in the sandbox, which is the operator's machine. Raises TimeoutExpired."""
    command = child_process.python("cluster.cli", *arguments, "--data-dir", str(data_dir))
    return subprocess.run(
        command, capture_output=True, text=True, env=child_process.environment(), timeout=COMMAND_TIMEOUT_S
    )
