"""Real consumers as programs: one process each, told what to do by lines, telling what happens as JSON."""
