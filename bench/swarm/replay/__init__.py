"""Recorded history as a swarm: what happened to real groups once, done again to any coordinator.

`reading` takes events from a history's segments, `past` finds in them what became of each group, `planning`
makes a plan of it; `counts` counts what happened, `beside` sets then and now side by side. Only `reading` and
`command` touch anything outside.
"""
