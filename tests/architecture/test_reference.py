"""Which Kafka is right is one line, and no page says otherwise. What was measured keeps the version it was
measured on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.ground.reference import KAFKA_TOOLS_VERSION, KAFKA_VERSION
from tests.architecture.tracked import tracked

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"\b(?:real|running)\s+Kafka\s+(\d+\.\d+\.\d+)|\bas Kafka (\d+\.\d+\.\d+) defines")
WRITTEN = re.compile(r"\b\d+\.\d+\.\d+\b")
TEXTS = [path for path in tracked(ROOT) if path.suffix in (".py", ".md") and path.is_file()]
BUILDS = (
    "bench/peers/jars.py",
    "tests/kafka/java/pom.xml",
    "tests/kafka/java_tools/pom.xml",
    "tests/kafka/jvm.py",
)


def named(text: str) -> list[str]:
    return [first or second for first, second in NAMED.findall(text)]


def test_every_page_means_the_same_kafka() -> None:
    wrong = {
        str(path.relative_to(ROOT)): versions
        for path in TEXTS
        if (versions := {*named(path.read_text(encoding="utf-8"))} - {KAFKA_VERSION})
    }
    assert wrong == {}


@pytest.mark.parametrize("page", ["README.md", "tests/README.md", "actors/coordinator/RULES.md"])
def test_the_pages_that_promise_to_be_as_kafka_say_which(page: str) -> None:
    assert KAFKA_VERSION in named((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", BUILDS)
def test_no_build_names_a_version_of_its_own(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not {KAFKA_VERSION, KAFKA_TOOLS_VERSION} & {*WRITTEN.findall(text)}


def test_another_version_is_seen() -> None:
    one, other = "9.9.9", "9.9.8"
    assert named(f"answers of a real Kafka {one}, and\na running\nKafka {other}") == [one, other]
