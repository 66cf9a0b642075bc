"""All lies, in the order of the table. PURE."""

from __future__ import annotations

from typing import Final

from tests.lies import of_answers, of_commits, of_epochs, of_ownership, of_service
from tests.lies.lie import Lie

LIES: Final[dict[str, type[Lie]]] = {
    name: lie
    for module in (of_service, of_commits, of_ownership, of_epochs, of_answers)
    for name, lie in vars(module).items()
    if isinstance(lie, type) and issubclass(lie, Lie) and lie.__module__ == module.__name__
}
KINDS_MIN: Final = 25
assert len(LIES) >= KINDS_MIN
