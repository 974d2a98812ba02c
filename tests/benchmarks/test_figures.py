"""What a figure says follows from its rounds, and its bar can be missed."""

from __future__ import annotations

from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks.figures import BARS, Bar, Figure, Ran, gaps, ratio, rounded
from benchmarks.figures import LOCKS as LOCK_BARS
from benchmarks.figures import POLICIES as POLICY_BARS
from benchmarks.figures import TURNS as TURN_BARS
from benchmarks.report import charts, draw, show
from benchmarks.subjects import LOCKS, POLICIES, TURNS, Subject

FACTS = {
    "versions": {"python": "3.11.7", "redis-server": "7.0.15", "redis": "8.1.0"},
    "machine": {"cpus": 2, "cpus_taken_by_others": 0.9, "system": "Linux"},
    "date": "2026-11-15T20:00:00+00:00",
    "rounds": 3,
    "seconds": 9.5,
}


def some_figures(subject: Subject) -> list[Figure]:
    return [Figure(drawn.figure, 3.0, "calls", {"inturn": [3.0], "<peer>": [0.1]}) for drawn in subject.drawn]


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    rounds = {"inturn": [10.0, 20.0, 90.0], "redis-py": [5.0, 5.0, 9.0]}
    figure = ratio("throughput_vs_redis_py", "per second", rounds, "inturn", "redis-py")
    assert figure.value == 4
    assert figure.is_reached


@pytest.mark.parametrize(
    ("bar", "measured", "reached"),
    [
        (Bar(">=", 4), 3.99, False),
        (Bar(">=", 4), 4, True),
        (Bar("<=", 1), 1.01, False),
        (Bar("<=", 1), 1.0, True),
        (Bar("==", 2), 2.01, False),
        (Bar("==", 2), 2.0, True),
        (Bar(">=", None), 0.1, None),
    ],
)
def test_a_bar_is_reached_or_missed(bar: Bar, measured: float, reached: bool | None) -> None:
    assert bar.is_reached_by(measured) is reached


def test_of_an_object_the_median_is_held_against_the_bar() -> None:
    assert Figure("handoff_across_processes_ms", {"median": 0.9, "p90": 5.0}, "ms", {}).is_reached
    assert not Figure("handoff_across_processes_ms", {"median": 1.1, "p90": 5.0}, "ms", {}).is_reached


@pytest.mark.parametrize(
    ("name", "reached", "missed"),
    [
        ("round_trips_per_turn", 2.0, 2.005),
        ("throughput_vs_recipe", 5.0, 4.99),
        ("throughput_vs_plain_pool", 2.0, 1.99),
        ("throughput_with_send_vs_recipe", 4.0, 3.99),
        ("latency_vs_recipe", 0.5, 0.501),
        ("burst_handover_ms", 1.0, 1.001),
        ("submit_to_start_ms", 5.0, 5.001),
        ("growth_lanes", 1.25, 1.251),
        ("growth_mailbox", 1.25, 1.251),
        ("bytes_per_idle_lane", 550.0, 550.1),
        ("bytes_per_mark", 200.0, 200.1),
        ("sqlite_vs_bare_loop", 1.0, 0.999),
        ("interrupt_ms", 20.0, 20.01),
        ("interrupt_p99_ms", 100.0, 100.1),
        ("merge_overhead_vs_queue", 2.0, 2.001),
        ("turn_slowdown_with_watchers", 1.1, 1.101),
        ("guard_overhead_ms", 2.0, 2.001),
        ("users_at_once", 1000.0, 999.0),
        ("faults", 0.0, 1.0),
    ],
)
def test_each_figure_is_reached_at_its_bar_and_missed_beyond(name: str, reached: float, missed: float) -> None:
    assert Figure(name, reached, "", {}).is_reached is True
    assert Figure(name, missed, "", {}).is_reached is False


def test_a_figure_that_two_subjects_have_has_one_bar() -> None:
    for bars in (LOCK_BARS, TURN_BARS, POLICY_BARS):
        assert bars.items() <= BARS.items()


def test_what_is_only_reported_is_no_part_of_the_verdict_and_is_shown_beside_it() -> None:
    figure = Figure("submit_to_start_ms", 1.5, "ms", {"median": [1.5]}, reported={"p99": 12.0})
    assert figure.is_reached
    assert figure.details()["p99"] == 12.0
    console = Console(file=StringIO(), record=True, width=100)
    show(console, [figure], [], FACTS)
    assert "1.5 (p99 12)" in console.export_text()


def test_the_details_of_a_figure() -> None:
    figure = Figure("round_trips_uncontended", 2.0, "calls", {"inturn": [2.00012, 2.0]}, {"windows": 2})
    assert figure.details() == {
        "value": 2.0,
        "bar": "== 2",
        "reached": True,
        "unit": "calls",
        "medians_by_round": {"inturn": [2.0, 2.0]},
        "windows": 2,
    }


def test_the_body_is_no_part_of_a_hand_over() -> None:
    bodies = [Ran(5.0, 6.0, 1), Ran(0.0, 1.0, 0), Ran(1.5, 4.0, 0)]
    assert gaps(bodies) == [0.5, 1.0]
    assert gaps(bodies, between_processes=True) == [1.0]


@pytest.mark.parametrize(("value", "shown"), [(0.123456, 0.1235), (12.3456, 12.35), (12345.6, 12346.0)])
def test_numbers_have_as_many_digits_as_mean_something(value: float, shown: float) -> None:
    assert rounded(value) == shown


@pytest.mark.parametrize(("subject", "bars"), [(LOCKS, LOCK_BARS), (TURNS, TURN_BARS), (POLICIES, POLICY_BARS)])
def test_every_chart_shows_a_figure_that_exists(subject: Subject, bars: dict[str, Bar]) -> None:
    assert {drawn.figure for drawn in subject.drawn} <= set(bars)


@pytest.mark.parametrize("subject", [LOCKS, TURNS, POLICIES])
def test_the_picture_is_well_formed_and_to_scale(subject: Subject) -> None:
    drawn = draw(f"inturn benchmarks: {subject.name}", charts(some_figures(subject), subject.drawn), FACTS)
    picture = ElementTree.fromstring(drawn)
    bars = [
        float(rect.attrib["width"]) for rect in picture.iter("{http://www.w3.org/2000/svg}rect") if "rx" in rect.attrib
    ]
    assert len(bars) == 2 * len(subject.drawn)
    assert bars[1] / bars[0] == pytest.approx(1 / 30, rel=0.01)
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "<peer>" in texts
    assert f"inturn benchmarks: {subject.name}" in texts


def test_the_terminal_shows_what_was_missed_and_that_the_machine_was_busy() -> None:
    console = Console(file=StringIO(), record=True, width=100)
    figures = some_figures(LOCKS)
    show(console, figures, charts(figures, LOCKS.drawn), FACTS)
    shown = console.export_text()
    assert "latency_vs_redis_py" in shown
    assert "missed" in shown
    assert "reached" in shown
    assert "kept 0.9 CPUs busy" in shown
