"""`make demo`: the factor-1 incident and its cure, on real parts."""
