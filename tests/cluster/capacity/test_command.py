"""`groupd capacity`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.capacity import page
from cluster.capacity.costs import plain
from cluster.capacity.units import UnitError, quantity, seconds, short, shown_bytes, shown_seconds, size
from cluster.cli import app
from tests.cluster.capacity import made_up

RUNNER = CliRunner()


def run(*flags: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["capacity", *flags])
    return result.exit_code, result.stdout, result.stderr


def test_it_says_what_a_million_members_need_and_how_to_start_it() -> None:
    code, out, err = run("--members", "1000000", "--heartbeat", "5s", "--commit", "5s")
    assert (code, err) == (0, "")
    for words in ("offsets partitions", "memory of a machine", "decided by", "groupd up --nodes"):
        assert words in out
    assert "1,000,000 members are extrapolated" in out or "Nobody has put the model beside a tier" in out


def test_json_says_the_same_with_units_in_its_names() -> None:
    code, out, _ = run("--members", "20000", "--commit", "never", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["load"]["commit_s"] is None
    assert told["tier"]["disk_write_bytes_s"] == 0
    assert told["shape"]["machines"] == 3
    assert told["per_machine"]["after_loss"]["cores"] > told["per_machine"]["whole"]["cores"] > 0
    assert told["check"] is None or told["check"]["members_max"] > 0


def test_costs_of_ones_own_machine_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(plain(made_up.table())))
    code, out, _ = run("--members", "1000", "--costs", str(path))
    assert code == 0
    assert "a machine." in out
    path.write_text("[]")
    assert run("--members", "1000", "--costs", str(path))[0] == 1
    assert run("--members", "1000", "--costs", str(tmp_path / "none"))[2].startswith("groupd: --costs ")


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--members", "0"), 2, "groupd: --members 0: 1 to 100,000,000 are allowed\n"),
        (("--members", "9", "--heartbeat", "5"), 2, "groupd: --heartbeat 5: a time such as 500ms"),
        (("--members", "9", "--commit", "soon"), 2, "groupd: --commit soon: a time such as 500ms"),
        (("--members", "9", "--memory", "lots"), 2, "groupd: --memory lots: a size such as"),
        (("--members", "9", "--protocol", "x"), 2, "groupd: --protocol x: consumer or classic is expected\n"),
        (("--members", "9", "--lose", "2"), 2, "groupd: --lose 2: 3 copies survive"),
        (("--members", "90000000", "--cores", "1"), 1, "groupd: "),
    ],
)
def test_nonsense_ends_with_one_line(flags: tuple[str, ...], code: int, words: str) -> None:
    found, out, err = run(*flags)
    assert (found, out) == (code, "")
    assert err.startswith(words)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", 0.5), ("5s", 5), ("1.5m", 90), ("1h", 3_600), ("2d", 172_800)]
)
def test_times(text: str, value: float) -> None:
    assert seconds(text) == value
    assert seconds(shown_seconds(value)) == value


def test_sizes() -> None:
    assert size("512MiB") == 2**29
    assert shown_bytes(64 * 2**30) == "64 GiB"
    assert shown_bytes(1_000_000) == "977 KiB"
    assert short(0.000123) == "0.0001"
    assert [quantity(*each) for each in ((999, "bytes"), (2**30, "bytes"), (0.5, "us"))] == [
        "999 bytes",
        "1 GiB",
        "0.5 us",
    ]
    for wrong in ("", "5", "GiB", "-1GiB", "1e9GiB", "1 000MiB", "5s"):
        with pytest.raises(UnitError):
            size(wrong)


def test_figures_made_on_a_busy_machine_are_said_to_be_preliminary() -> None:
    table, found = made_up.table(), made_up.checked()
    assert "preliminary" not in page.markdown(table, found)
    busy = found._replace(measured=found.measured._replace(foreign=0.4))
    assert "**The check is preliminary:** other programs had 40%" in page.markdown(table, busy)


def test_the_page_says_what_was_not_shown() -> None:
    found = made_up.checked()._replace(unseen=("3,000 members: nobody had settled",))
    assert "**Not shown:** 3,000 members: nobody had settled." in page.markdown(made_up.table(), found)


def test_a_model_that_was_never_checked_is_said_to_be_so() -> None:
    assert "Nobody has put this model beside a tier yet" in page.markdown(made_up.table(), None)


def test_the_page_states_the_error() -> None:
    text = page.markdown(made_up.table(), made_up.checked(-0.25))
    assert "The largest error: CPU -25%, memory -25%, disk -25%, network -25%." in text
