"""Every lie is told to a swarm on a real tier, and seen through by the swarm; the tier accuses nobody."""

from __future__ import annotations

import pytest

from tests.lies import trial
from tests.lies.catalogue import LIES
from tests.lies.server_history import Said
from tests.lies.trial import Trial

pytestmark = [pytest.mark.lies, pytest.mark.timeout(900)]
Told = dict[str, tuple[Trial, Said]]


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All lies that are asked for, several at once, on one tier."""
    chosen = {
        item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")
    } & set(LIES)
    with trial.tier() as tier:
        directory = tmp_path_factory.mktemp("lies")
        trials = list(trial.tell_all(chosen, trial.brokers_of(tier), directory))
        said = trial.server_says(tier, chosen)
    return {each.name: (each, said[each.name]) for each in trials}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_seen_through(told: Told, name: str) -> None:
    """None of them is told as all is well. Before, a server that was dead, one that refused everybody under
    churn, and one that threw commits away which nobody read passed as "no promise was broken"."""
    found, said = told[name]
    expected = LIES[name].expected
    assert found.told, "there was a lie"
    assert not found.errors
    assert not found.verdict.is_fine
    assert found.is_caught, (found.promise, found.verdict.by_rule)
    assert said.fits(expected.server), said
