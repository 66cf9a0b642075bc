"""How large a tier has to be for a load: PURE, from measured costs. `cluster.capacity_page` reads the files.

A plan of a tier's size has nothing to do with the capacities that `groupd history` finds in the past.
"""
