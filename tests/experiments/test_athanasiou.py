"""Paper 002's tables and figures: every verdict comes out, and rows agree with what is computed
another way."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import mpmath
import numpy as np
import pytest
from quick_results import QuickResults

from shuffledp_experiments.athanasiou import ENTRIES
from shuffledp_experiments.athanasiou.claims import exact_padding
from shuffledp_experiments.athanasiou.grid import SquareGrid, metres
from shuffledp_experiments.athanasiou.guarantees import least_error
from shuffledp_experiments.athanasiou.laws import rounding
from shuffledp_experiments.athanasiou.losses import TABLE_2
from shuffledp_experiments.athanasiou.noise import log_g, outward
from shuffledp_experiments.athanasiou.outliers import right_by_largest, right_by_sum
from shuffledp_experiments.athanasiou.planar import TABLE_3
from shuffledp_experiments.athanasiou.printed import (
    expected_random_bits,
    fewest_users,
    geo_parameter,
    geo_spec,
    present,
    rational,
    rr_spec,
)
from shuffledp_experiments.athanasiou.samplers import chi_square
from shuffledp_experiments.athanasiou.sentences import bit_variance, revealing_delta, tails
from shuffledp_experiments.entry import Kind, Results, Verdict
from shuffledp_experiments.registry import experiment
from shuffledp_privacy.sums.errors import sgdl_error
from shuffledp_privacy.sums.geo import published_epsilon as theorem_4_1
from shuffledp_privacy.sums.rr import published_epsilon as theorem_3_1

IDS = ("t2", "t3", *(f"f{i}" for i in range(2, 30)), *(f"c{i}" for i in range(1, 9)))


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return QuickResults()


def test_every_figure_and_table_of_the_paper_is_reachable() -> None:
    for name in IDS:
        assert experiment(f"002-{name}") in ENTRIES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_the_verdicts_are_those_that_the_registry_states(
    results: dict[str, Results], entry: object
) -> None:
    stated = next(candidate for candidate in ENTRIES if candidate is entry)
    assert {claim.verdict for claim in results[stated.id].claims} == stated.verdicts


def test_every_figure_is_drawn_from_its_rows(results: dict[str, Results]) -> None:
    for entry in ENTRIES:
        assert entry.draw(results[entry.id]).axes


def test_certified_is_never_below_attained(results: dict[str, Results]) -> None:
    pairs = 0
    for entry in ENTRIES:
        outcome = results[entry.id]
        sides: dict[object, dict[Kind, float]] = {}
        for row in outcome.rows:
            if row.kind in (Kind.CERTIFIED, Kind.ATTAINED):
                name = row.series.replace(row.kind.value, "")
                sides.setdefault((name, row.x, str(row.settings)), {})[row.kind] = row.y
        for both in sides.values():
            if len(both) == 2 and not any(map(math.isnan, both.values())):
                pairs += 1
                assert both[Kind.CERTIFIED] >= both[Kind.ATTAINED] * (1 - 1e-12)
        for claim in outcome.claims:
            if claim.certified is not None and claim.attained is not None:
                assert claim.certified >= claim.attained * (1 - 1e-12)
    assert pairs > 50


@pytest.mark.parametrize(("name", "table"), [("002-t2", TABLE_2), ("002-t3", TABLE_3)])
def test_every_printed_digit_is_in_a_row_and_in_a_claim(
    results: dict[str, Results], name: str, table: dict[tuple[int, float], tuple[str, ...]]
) -> None:
    digits = sorted(float(cell) for cells in table.values() for cell in cells)
    published = [row.y for row in results[name].rows if row.kind is Kind.PUBLISHED]
    assert sorted(published) == digits
    assert {claim.published for claim in results[name].claims} >= set(digits)


def test_the_headline_ninety_six_times_better_than_any_mechanism(
    results: dict[str, Results],
) -> None:
    impossible = [
        claim for claim in results["002-t2"].claims if claim.verdict is Verdict.IMPOSSIBLE
    ]
    assert len(impossible) == 5
    assert all("SGDL-Shuffle" in claim.statement for claim in impossible)
    phi = math.exp(-0.5)
    central = 2 * phi / (1 - phi**2) / 50
    assert central / 0.0004 == pytest.approx(96, abs=0.5)


def truncated_law(epsilon: float, reach: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    mass = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    return np.asarray(mass / mass.sum())


@pytest.mark.parametrize(("epsilon", "reach"), [(0.1, 55), (0.5, 14), (0.025, 150)])
def test_no_mechanism_that_we_can_write_down_is_better_than_the_least_error(
    epsilon: float, reach: int
) -> None:
    # Geometric noise that is cut off is (ε, δ) with δ its last probability.
    law = truncated_law(epsilon, reach)
    delta = float(np.maximum(law - math.exp(epsilon) * np.append(law[1:], 0.0), 0.0).sum())
    error = float(law @ np.abs(np.arange(-reach, reach + 1)))
    least = least_error(epsilon, delta, 10**6)
    assert least <= error
    assert least > 0.9 * error
    phi = math.exp(-epsilon)
    assert least_error(epsilon, 1e-6, 10**9) == pytest.approx(2 * phi / (1 - phi**2), rel=0.01)


def test_plans_as_printed_give_back_the_epsilon_that_the_statements_print() -> None:
    for users, epsilon in ((100, 0.1), (200, 0.3)):
        bits, geo = present(rr_spec(epsilon, 1e-4, users)), present(geo_spec(epsilon, 1e-4, users))
        assert theorem_3_1(bits, users, 1e-4) == pytest.approx(epsilon, rel=1e-3)
        assert theorem_4_1(geo.epsilon_geo, users, 1e-4) == pytest.approx(epsilon, rel=0.02)


def test_theorem_3_1_needs_as_many_users_as_its_formula_says() -> None:
    assert theorem_3_1(present(rr_spec(0.1, 1e-4, 35)), 35, 1e-4) == pytest.approx(0.1, rel=1e-3)
    assert rr_spec(0.1, 1e-4, 34) is None
    assert (fewest_users(0.1, 1e-4), fewest_users(0.15 / (6 * math.sqrt(2)), 5e-5)) == (35, 1162)
    needed = expected_random_bits(0.1, 1e-4)
    slack = needed - math.sqrt(2 * needed * math.log(2e4))
    assert math.sqrt(32 * math.log(4e4) / slack) == pytest.approx(0.1, rel=1e-12)


def test_theorem_4_1_has_no_value_for_four_users_or_fewer() -> None:
    assert geo_parameter(0.1, 1e-3, 4) is None
    assert geo_parameter(0.1, 1e-3, 5) is not None


def test_what_a_report_of_sgdl_shuffle_costs_agrees_with_mpmath(
    results: dict[str, Results],
) -> None:
    row = next(
        r
        for r in results["002-f6"].rows
        if r.series == "SGDL-Shuffle, ε_S = 0.2, as printed" and r.x == 150
    )
    with mpmath.workdps(30):
        square, beta = mpmath.exp(-0.4), mpmath.mpf(1) / 150
        zero = mpmath.hyp2f1(beta, beta, 1, square)
        at_one = mpmath.exp(-0.2) * beta * mpmath.hyp2f1(beta + 1, beta, 2, square)
        assert row.y == pytest.approx(float(mpmath.log(zero / at_one)), rel=1e-9)


def test_the_ratio_of_figure_7_is_that_of_the_law_by_fourier_transform() -> None:
    law = sgdl_error(100.0, -math.log(0.81))
    middle = law.mass.size // 2
    for r, d in product((-5, 0, 4), (10, 11)):
        left, right = math.floor(r - d / 2), math.floor(r + d / 2)
        expected = abs(math.log(law.mass[middle + left] / law.mass[middle + right]))
        assert log_g(np.array([r]), d, 100, 0.81)[0] == pytest.approx(expected, abs=1e-6)


def test_a_change_costs_more_for_each_unit_the_larger_it_is() -> None:
    steps = np.arange(1, 200)
    assert (np.diff(outward(np.array([-1]), steps, 100, math.exp(-0.2))[0]) > 0).all()


def test_lemma_c1_is_after_a_padding_that_the_law_by_fourier_transform_has_too() -> None:
    for users in (100, 1000):
        law, padding = sgdl_error(1 / users, 0.1), exact_padding(rational(0.1), users, 1e-4)

        def anybody(c: int, users: int = users) -> float:
            tail = float(law.mass[np.abs(law.errors) > c].sum())  # noqa: B023
            return -math.expm1(users * math.log1p(-tail))

        assert anybody(padding) <= 1e-4 < anybody(padding - 1)
    assert padding == 77  # docs/accounting.md, S13


@pytest.mark.parametrize("manhattan", [True, False])
def test_metres_are_those_of_all_pairs_of_errors(*, manhattan: bool) -> None:
    law = sgdl_error(3.0, 0.4)
    size = np.abs(law.errors)
    pairs = size[:, None] + size if manhattan else np.hypot(size[:, None], size)
    expected = float((pairs * law.mass[:, None] * law.mass).sum()) * 100 / 7
    mean, low, high = metres(law, 7, 100.0, manhattan=manhattan)
    assert mean == pytest.approx(expected, rel=1e-3)
    assert low < mean < high


def test_a_guarantee_of_the_plane_is_halved_for_the_axes_as_the_paper_says() -> None:
    assert SquareGrid(1000, 600.0).axis(0.15) == pytest.approx(0.15 / (6 * math.sqrt(2)))
    assert SquareGrid(500, 600.0).side == 200


def test_guesses_by_two_noisy_numbers_are_those_counted_out() -> None:
    law, d = sgdl_error(1.0, 0.7), 3
    reach = law.errors.astype(int)
    joint = law.mass[:, None] * law.mass
    near, far = np.maximum(reach[:, None], reach), np.maximum(reach[:, None] + d, reach)
    best = max(float(joint[far >= t].sum() + joint[near < t].sum()) / 2 for t in range(-5, 12))
    assert right_by_largest(law, 2, d) == pytest.approx(best, abs=1e-9)
    assert right_by_sum(law, 10**3) == pytest.approx(1.0, abs=1e-9)


def test_the_chi_square_notices_another_law_and_lets_its_own_pass() -> None:
    law, other = sgdl_error(5.0, 0.5), sgdl_error(5.0, 0.4)
    generator = np.random.default_rng(7)
    # One fixed seed: it passes always or never.
    assert chi_square(law.sample(2000, generator), law) > 1e-9
    assert chi_square(other.sample(2000, generator), law) < 1e-9


def test_half_a_unit_of_the_last_digit() -> None:
    assert [rounding(cell) for cell in ("1", ".42", "6E-5", "120")] == pytest.approx(
        [0.5, 0.005, 5e-6, 0.5]
    )


def test_reports_together_cost_what_all_their_outputs_cost() -> None:
    """All outputs of three reports, each published with δ: None stands for nothing."""
    delta = 0.05
    before = {(0, True): delta, (0, False): 1 - delta}
    for growth in (1.0, 2.0, 50.0):
        excess = 0.0
        for shown in product((True, False), repeat=3):
            p = math.prod(before[0, user] for user in shown)
            q = 0.0 if any(shown) else p
            excess += max(p - growth * q, 0.0)
        assert revealing_delta(delta, 3) == pytest.approx(excess, rel=1e-12)


def test_the_variance_of_a_bit_is_that_of_all_its_outcomes() -> None:
    for p, bit in product((0.1, 0.393, 0.9), (0, 1)):
        law = {bit: 1 - p / 2, 1 - bit: p / 2}
        mean = sum(value * chance for value, chance in law.items())
        spread = sum((value - mean) ** 2 * chance for value, chance in law.items())
        assert bit_variance(p, bit) == pytest.approx(spread, rel=1e-12)


def test_the_tails_of_theorem_f1_agree_with_mpmath() -> None:
    users, mean, beta = 50, 0.3, 0.05
    below, above = tails(users, mean, beta)
    with mpmath.workdps(30):

        def chance(ones: int) -> mpmath.mpf:
            return (
                mpmath.binomial(users, ones)
                * mpmath.mpf("0.3") ** ones
                * mpmath.mpf("0.7") ** (users - ones)
            )

        spread = users * mean * -mpmath.log(beta)
        low, high = users * mean - mpmath.sqrt(2 * spread), users * mean + mpmath.sqrt(3 * spread)
        assert below == pytest.approx(
            float(sum(chance(i) for i in range(users + 1) if i <= low)), rel=1e-9
        )
        assert above == pytest.approx(
            float(sum(chance(i) for i in range(users + 1) if i >= high)), rel=1e-9
        )


def test_figures_of_other_data_are_other_pictures(results: dict[str, Results]) -> None:
    """Figures 5 and 29 differ in their addresses alone."""
    clustered, dispersed = results["002-f5"], results["002-f29"]
    assert [row.y for row in clustered.rows] != [row.y for row in dispersed.rows]
    for name in ("002-f5", *(f"002-f{number}" for number in range(23, 30))):
        title = experiment(name).draw(results[name]).get_suptitle()
        assert str(results[name].rows[0].settings["addresses"]) in title


def test_every_series_of_a_legend_is_seen(results: dict[str, Results]) -> None:
    """A number without a neighbour is a mark, and has its interval, too.

    RR-Shuffle of figure 23 takes 2,609 users: a quick run has one such number.
    """
    figure = experiment("002-f23").draw(results["002-f23"])
    (alone,) = (line for line in figure.axes[0].lines if line.get_label() == "RR-Shuffle")
    assert np.isfinite(np.asarray(alone.get_ydata(), dtype=float)).sum() == 1
    assert alone.get_marker() != "None"
    assert len(figure.axes[0].collections) == len(figure.axes[0].lines)
    certified = [line for line in figure.axes[1].lines if line.get_marker() != "None"]
    assert len({line.get_marker() for line in certified}) == len(certified) > 2


def test_no_title_of_a_figure_reaches_beyond_its_panel(results: dict[str, Results]) -> None:
    """A whole run has two certified panels, and there the title of the last one was cut."""
    for name, squares in (("002-f24", 500), ("002-f25", 1500), ("002-f28", 1000)):
        quick = results[name]
        rows = [
            replace(
                row,
                series=row.series.replace("d = 1", f"d = {squares}"),
                settings={**row.settings, "d_max": squares},
            )
            for row in quick.rows
            if row.series.endswith("certified to d = 1")
        ]
        figure = experiment(name).draw(replace(quick, rows=(*quick.rows, *rows)))
        figure.draw_without_rendering()
        assert len(figure.axes) == 3
        for axes in figure.axes:
            title = axes.title.get_window_extent()
            panel = axes.get_window_extent()
            assert title.width <= panel.width, axes.get_title()
        marks = {line.get_label(): line.get_marker() for line in figure.axes[1].lines}
        legend = dict(zip(*figure.axes[0].get_legend_handles_labels()[::-1], strict=True))
        assert {label: legend[label].get_marker() for label in marks} == marks


def test_a_map_of_made_up_addresses_says_so(results: dict[str, Results]) -> None:
    (title,) = (
        axes.get_title() for axes in experiment("002-f22").draw(results["002-f22"]).axes[:1]
    )
    assert "stand-in addresses" in title


def test_no_series_of_a_figure_doubles_back() -> None:
    for quick in (False, True):
        users = experiment("002-f6").work(quick=quick)["users"]
        assert sorted(set(users)) == list(users)


def test_series_of_figure_3_have_markers_of_their_own(results: dict[str, Results]) -> None:
    figure = experiment("002-f3").draw(results["002-f3"])
    markers = [line.get_marker() for line in figure.axes[0].lines if line.get_marker() != "None"]
    assert len(set(markers)) == len(markers) == 4


def test_the_cells_of_the_map_touch_and_hold_every_address(results: dict[str, Results]) -> None:
    rows = results["002-f22"].rows
    (mesh,) = (
        collection
        for collection in experiment("002-f22").draw(results["002-f22"]).axes[0].collections
    )
    counts = mesh.get_array()
    assert counts is not None
    assert np.nansum(np.ma.MaskedArray(counts).filled(0)) == sum(row.y for row in rows)
