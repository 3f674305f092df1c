import pytest

from dimly.errors import ParameterError
from dimly.lab.charts import LOOKS, Axis, Chart, Line, LineLook, Winners, label_of, looks_of, rendered
from dimly.lab.compare import compare, predict
from dimly.lab.figures import FIGURES, Circumstances, comparison_chart, figure_named
from dimly.mechanisms.make import MECHANISMS
from dimly.privacy import Budget, delta_of


def test_figure_1_is_the_exact_curve() -> None:
    chart = figure_named("privacy-curves")
    assert isinstance(chart, Chart)
    exact = {line.label: dict(zip(line.x, line.y, strict=True)) for line in chart.lines}
    assert exact["σ = 1, exact"][1.0] == pytest.approx(0.127, abs=0.0005)  # where the paper reads off (1, 0.1)
    assert exact["σ = 2, Theorem 1"][2.0] == delta_of(2.0, epsilon=2.0, rule="theorem1")
    for sigma in (1, 2):
        proven, true = exact[f"σ = {sigma}, Theorem 1"], exact[f"σ = {sigma}, exact"]
        assert all(delta > true[epsilon] for epsilon, delta in proven.items())


def test_the_marked_k_is_the_best() -> None:
    chart = figure_named("error-by-k", Circumstances(epsilon=2.0, distance=200.0))
    assert isinstance(chart, Chart)
    assert len(chart.lines) == 3
    for line in chart.lines:
        (marked,) = line.marked
        assert line.y[marked] == pytest.approx(min(line.y), rel=0.01)


@pytest.mark.parametrize("mechanism", ["sparse+laplace", "dasgupta+laplace", "sparse+gaussian", "sign+gaussian"])
def test_the_marked_error_is_the_one_that_compare_predicts(mechanism: str) -> None:
    about = Circumstances(mechanisms=[mechanism])
    chart = figure_named("error-by-k", about)
    assert isinstance(chart, Chart)
    (line,) = chart.lines
    (marked,) = line.marked
    one = predict(mechanism, Budget(about.epsilon, about.delta), distance=about.distance, n_attributes=100_000)
    assert line.x[marked] == one.k
    assert line.y[marked] == pytest.approx(one.stderr)
    assert line.y[marked] == pytest.approx(min(line.y), rel=0.01)


def test_who_cannot_serve_has_no_line() -> None:
    chart = figure_named("error-by-k", Circumstances(delta=0.0))
    assert isinstance(chart, Chart)
    assert [line.label for line in chart.lines] == ["hashing+laplace", "counting+laplace"]
    assert chart.note == "Circles: the best k."  # nobody who is not there is spoken of
    by_epsilon = figure_named("error-by-epsilon", Circumstances(delta=0.0))
    assert isinstance(by_epsilon, Chart)
    assert "paper" not in by_epsilon.note
    with pytest.raises(ParameterError, match="one that can serve at this budget, got paper"):
        figure_named("error-by-k", Circumstances(delta=0.0, mechanisms=["paper"]))


def test_titles_and_notes_name_the_circumstances() -> None:
    chart = figure_named("error-by-k", Circumstances(n_attributes=5_000))
    assert isinstance(chart, Chart)
    assert chart.title == "Error against sketch dimension, squared distance 400, 5,000 attributes, ε = 1"
    assert chart.note.endswith("The paper's has its Theorem 1's noise at δ = 1e-06; Laplace has δ = 0.")
    alone = figure_named("error-by-k", Circumstances(mechanisms=["paper"]))
    assert isinstance(alone, Chart)
    assert "Laplace" not in alone.note


def test_as_many_places_as_dashes_are_told_apart_and_more_are_refused() -> None:
    distances = [100.0, 200.0, 300.0, 400.0, 500.0]
    found = compare([1.0], distances=distances, mechanisms=["hashing+laplace"])
    assert len({line.look.dashes for line in comparison_chart(found[:4]).lines}) == 4
    with pytest.raises(ParameterError, match=r"at most 4 combinations of distance .*, got 5\. Name fewer"):
        comparison_chart(found)


def test_a_long_legend_stands_beside_the_lines() -> None:
    few, many = (comparison_chart(compare([1.0, 2.0], distances=at)) for at in ([100.0], [100.0, 200.0, 400.0]))
    assert few.draw().axes[0].get_legend() is not None
    assert not few.draw().legends
    drawn = many.draw()
    assert drawn.axes[0].get_legend() is None
    assert len(drawn.legends[0].get_texts()) == len(many.lines)


def test_errors_fall_with_epsilon() -> None:
    chart = figure_named("error-by-epsilon")
    assert isinstance(chart, Chart)
    for line in chart.lines[:-1]:
        assert list(line.y) == sorted(line.y, reverse=True)


@pytest.fixture(scope="module")
def winners() -> Winners:
    drawn = figure_named("winners", Circumstances(epsilon=4.0))
    assert isinstance(drawn, Winners)
    return drawn


@pytest.mark.thorough
def test_the_map_of_winners(winners: Winners) -> None:
    assert winners.best[0][-1] == "no such pairs"
    assert winners.best[-1][0] == "counting+laplace"
    assert any("randomized-response" in row for row in winners.best)


@pytest.mark.thorough
def test_areas_of_the_map_are_named_where_they_are_and_hatched_apart(winners: Winners) -> None:
    (axis,) = winners.draw().axes
    names = {name for row in winners.best for name in row}
    labels = {text.get_text(): text.get_position() for text in axis.texts}
    assert set(labels) == {label_of(name) for name in names}
    for name in names:
        x, y = labels[label_of(name)]
        assert winners.best[list(winners.rows).index(y)][list(winners.columns).index(x)] == name
    hatches = [patch.get_hatch() for patch in axis.patches]
    assert len(set(hatches)) == len(names)


def test_areas_cover_the_map_once() -> None:
    fields = ["counting+laplace", "paper", "randomized-response"]
    best = [[fields[(i * j) % 3] for j in range(7)] for i in range(5)]
    drawn = Winners("", Axis("", "log"), Axis(""), [1.0, 2, 4, 8, 16, 32, 64], [1.0, 2, 3, 4, 5], best)
    (axis,) = drawn.draw().axes
    areas = dict(zip(sorted(fields), axis.patches, strict=True))
    for i, row in enumerate(best):
        for j, name in enumerate(row):
            at = (drawn.columns[j], drawn.rows[i])
            found = [one for one, patch in areas.items() if patch.get_path().contains_point(at)]
            assert found == [name]
    assert axis.get_xlim() == pytest.approx((2**-0.5, 2**6.5))
    assert axis.get_ylim() == pytest.approx((0.5, 5.5))


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_bytes(kind: str) -> None:
    assert rendered(figure_named("error-by-epsilon"), kind) == rendered(figure_named("error-by-epsilon"), kind)


def test_bad_asks_are_refused() -> None:
    with pytest.raises(ParameterError, match="name must be one of"):
        figure_named("cats")
    with pytest.raises(ParameterError, match="epsilon must be"):
        Circumstances(epsilon=-1.0)


def test_everybody_looks_different() -> None:
    names = list(dict.fromkeys([*LOOKS, *MECHANISMS]))
    assert len(set(looks_of(names).values())) == len(names)
    assert set(FIGURES) == {"privacy-curves", "error-by-k", "winners", "error-by-epsilon", "directions"}


def test_a_long_note_is_not_cut_off() -> None:
    words = "; ".join(f"plan {i}: k = 256, δ = 1e-06" for i in range(9))
    figure = Chart("", Axis("x"), Axis("y"), [Line("a", [0, 1], [0, 1], LineLook("#000000", "o"))], words).draw()
    figure.draw_without_rendering()
    (note,) = [text for text in figure.texts if text.get_text().startswith("plan 0")]
    assert note.get_window_extent().x1 < figure.bbox.x1
    assert note.get_window_extent().y0 >= 0
