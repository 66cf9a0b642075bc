"""What peers are made to do, one module for each kind of work: `scenarios(plan)` says which there are."""
