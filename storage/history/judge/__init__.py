"""Whether a coordinator kept its promises, judged by its clients' own history.

PURE: values in, a verdict out. Ambiguity is treated as Jepsen does: a call that was not answered may have
been carried out at any moment from its sending on, or never; a violation is what no order of events explains.
"""
