"""The kinds of work for peers, one module for each: `scenarios(plan)` says which scenarios it has."""
