"""Which side a load is for."""

from __future__ import annotations

from tests.chaos.history import Recorder
from tests.chaos.lanes.load import LaneLoad
from tests.chaos.lanes.naive import NaiveSide
from tests.chaos.lanes.ours import InTurnSide
from tests.chaos.lanes.sides import Side


def open_side(load: LaneLoad, recorder: Recorder | None = None) -> Side:
    return InTurnSide(load, recorder) if load.side == "inturn" else NaiveSide(load)
