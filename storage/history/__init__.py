"""The record of what happened, and what is read from it."""
