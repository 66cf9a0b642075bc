"""Replays recorded history as a swarm: what happened to real groups once is done again to any coordinator.

`reading` takes events from a history's segments, `past` finds in them the life of each group, `planning`
makes a plan of it; `counts` counts what happened, `beside` sets then and now side by side. Only `reading` and
`command` touch anything outside.
"""
