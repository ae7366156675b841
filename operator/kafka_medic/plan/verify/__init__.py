"""A second opinion on every plan: the rules it must keep, counted by code that shares nothing with the planner."""
