"""Stands in front of hypothesis in processes that tests start (`tests.conftest`)."""

raise ImportError("only tests themselves have hypothesis")
