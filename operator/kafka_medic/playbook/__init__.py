"""What to do next: the model of a run, and `decide`, a pure function from what is seen to one step more.

Nothing here reads a clock or talks to anybody; the controller does, on both sides of `decide`.
"""
