"""Histories that never happened, with known answers: for tests of the jobs and for benchmarks.

`plan` decides everything from a seed (pure); `write` puts it on disk as a leader would.
"""
