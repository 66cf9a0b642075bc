"""A swarm as a locust test: `locust -f bench/swarm/load/locustfile.py --host ADDRESS --scenario steady`."""

from __future__ import annotations

from typing import Any

from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from bench.swarm.load.interrupting import interrupt_main_alone
from bench.swarm.load.user import PlanShape, SwarmUser, arguments, install

__all__ = ["PlanShape", "SwarmUser"]


def _arguments(parser: LocustArgumentParser, **_: Any) -> None:
    arguments(parser)


def _install(environment: Environment, **_: Any) -> None:
    install(environment)


interrupt_main_alone()
events.init_command_line_parser.add_listener(_arguments)
events.init.add_listener(_install)
