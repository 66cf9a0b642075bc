"""Planted lies: a proxy between swarm and server that breaks one promise, and what is said of it."""
