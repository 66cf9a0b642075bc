"""A process of ours starts others of ours, wherever the user is and wherever our packages are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cluster import child_process


def listed(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        child_process.python("cluster.cli", "chaos", "list"),
        cwd=directory,
        env=child_process.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_child_runs_in_a_directory_that_has_folders_of_our_names(tmp_path: Path) -> None:
    """Our source tree has such folders, and so may the user's project: these were once taken for ours."""
    for name in ("cluster", "bench"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('another project')")
    ran = listed(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "kill-leader" in ran.stdout


def test_our_packages_come_first_on_the_way_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere{os.pathsep}{child_process.ROOT}")
    assert child_process.environment()["PYTHONPATH"].split(os.pathsep) == [
        str(child_process.ROOT),
        "/elsewhere",
    ]


def test_packages_that_are_installed_need_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages on PYTHONPATH would go before the standard library, and could hide parts of it."""
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setattr(child_process.site, "getsitepackages", lambda: [str(child_process.ROOT)])
    assert child_process.environment()["PYTHONPATH"] == "/elsewhere"
