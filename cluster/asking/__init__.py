"""How a tier is asked that cannot be asked through Ray."""
