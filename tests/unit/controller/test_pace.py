"""The next turn comes soon, and never so soon that watching takes a whole core."""

from kafka_medic.controller.pace import LONGEST_BREATH, SHORTEST_PAUSE, pause


def test_the_operator_rests_as_long_as_it_worked_up_to_a_bound():
    assert pause(15.0, 0.3) == 15.0
    assert pause(0.1, 0.3) == 0.3
    assert pause(0.0, 0.0) == SHORTEST_PAUSE
    assert pause(0.0, 60.0) == LONGEST_BREATH, "a broker that hangs makes looks long, which costs no processor"
