"""What figures show: their data, their words and their forms; how they look, people have to look at."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text
from support import ROOT, TESTS
from support.made_up_grids import made_up, odd

from raybench.analysis.grid_results import GridResults
from raybench.core.job import Target
from raybench.core.status import TrialStatus
from raybench.reporting import figures
from raybench.reporting.figures import NoDataError, draw, rendered_figures, svg
from raybench.reporting.figures.theme import fitted
from raybench.results import timing


def words(figure):
    """Every text of a figure."""
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def aimed(results, at_least=0.78):
    return replace(results, target=Target("val/accuracy", at_least))


def rows(panel):
    return [label.get_text() for label in panel.get_yticklabels()]


def test_a_figure_that_fails_is_left_out_with_the_reason(monkeypatch):
    def fail(_):
        raise ValueError("max() arg is an empty sequence" + "!" * 1000)

    monkeypatch.setattr(figures, "FIGURES", figures.FIGURES | {"times": replace(figures.FIGURES["times"], draw=fail)})
    drawn, left_out = rendered_figures(made_up())
    assert "speedups" in {picture.name for picture in drawn} and "times" not in {picture.name for picture in drawn}
    assert left_out["times"].startswith("it could not be drawn: ValueError: max() arg is an empty sequence!!!")
    assert len(left_out["times"]) == 300


def test_epoch_times_have_a_row_a_cell_and_its_interval():
    panel = draw("times", made_up()).axes[0]
    assert rows(panel) == ["cpu", "gpu"]
    assert panel.get_xlabel() == "seconds per epoch (lower is faster)"
    intervals = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2]
    rings = [line for line in panel.lines if line.get_fillstyle() == "none" or len(line.get_xdata()) == 3]
    assert len(intervals) == 2 and len(rings) >= 2
    low, high = intervals[0]
    assert low < 4.0 < high and high - low < 0.5


def test_one_run_has_no_interval():
    panel = draw("times", made_up(repeats=1)).axes[0]
    assert not [line for line in panel.lines if len(line.get_xdata()) == 2]


def test_an_interval_that_says_nothing_does_not_take_the_page():
    panel = draw("times", made_up(repeats=2, noise=0.3)).axes[0]
    low, high = panel.get_xlim()
    assert high < 60 and low >= 0, "the 95 % interval of two such runs ends beyond 1000"


def test_what_has_no_number_says_why():
    said = {label: words(draw(label, odd())) for label in ("times", "speedups", "accuracy_map", "ledger")}
    for name, texts in said.items():
        for word in ("oom", "diverged", "skipped"):
            assert any(word in text for text in texts), (name, word)
    assert any("1 not run" in text for text in said["times"])


def test_speed_ups_stand_beside_one():
    panel = draw("speedups", odd()).axes[0]
    assert "cpu b256 wd0" not in rows(panel) and "tpu b256 wd0" in rows(panel)
    assert panel.get_xlabel() == "speed-up over the baseline"
    assert [line for line in panel.lines if list(line.get_xdata()) == [1, 1]], "the rule at 1"


def test_the_ledger_is_told_by_hatches_and_adds_up():
    figure = draw("ledger", made_up())
    panel = figure.axes[0]
    bars = [bar for container in panel.containers for bar in container]
    assert sum(bar.get_width() for bar in bars if bar.get_y() < 0) == pytest.approx(100)
    looks = {(container[0].get_hatch(), container[0].get_facecolor()) for container in panel.containers}
    assert len(looks) == len(panel.containers), "no two sections look alike"
    assert {"train", "evaluate", "compile", "data"} <= set(words(figure))
    assert [text for text in words(figure) if re.fullmatch(r"[\d.]+ s", text)]


def test_the_map_has_a_panel_a_device_and_a_square_a_cell():
    figure = draw("accuracy_map", odd())
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title("left") for panel in shown] == ["cpu", "gpu", "tpu"]
    assert [len(panel.patches) for panel in shown] == [4, 4, 4]
    hatched = [patch for panel in shown for patch in panel.patches if patch.get_hatch()]
    assert len(hatched) == 3
    assert [label.get_text() for label in shown[0].get_xticklabels()] == ["0", "5e-4"]
    assert rows(shown[0]) == ["256", "512"]
    assert {"weight decay λ", "batch size"} <= set(words(figure))


def test_curves_have_a_line_a_cell_and_units():
    figure = draw("accuracy_by_time", odd())
    assert {"training time, s", "val/accuracy"} <= set(words(figure))
    shown = [panel for panel in figure.axes if panel.get_visible()]
    titles = ["b256\ngpu wd0: diverged", "b512\ncpu wd0: 1 not run\ngpu wd5e-4: oom\ntpu wd0: skipped"]
    assert [panel.get_title("left") for panel in shown] == titles
    lines = [line for line in shown[0].lines if not line.get_label().startswith("_")]
    assert {line.get_label() for line in lines} >= {"cpu wd0", "tpu wd5e-4"}
    looks = {(line.get_marker(), str(line.get_linestyle()), line._dash_pattern[1] is not None) for line in lines}
    assert len(looks) == len(lines), "told apart without colours"
    x = next(line for line in lines if line.get_label() == "cpu wd0").get_xdata()
    assert x[-1] == pytest.approx(4 * 4.0, rel=0.1)
    epochs = draw("accuracy_by_epoch", odd())
    assert "epoch" in words(epochs)
    assert any("b512 wd5e-4: oom" in text for text in words(epochs))


def test_many_cells_show_the_best():
    many = made_up(("cpu", "gpu"), (32, 64, 128, 256, 512), (0.0, 1.25e-4, 2.5e-4, 5e-4), repeats=1)
    assert "the best of each device" in words(draw("accuracy_by_time", many))
    assert sum(panel.get_visible() for panel in draw("accuracy_by_epoch", many).axes) <= 9


def test_the_crossover_ends_at_the_steady_speed_up():
    panel = draw("crossover", made_up(noise=0.0)).axes[0]
    curve = next(line for line in panel.lines if line.get_label() == "gpu")
    assert curve.get_ydata()[0] < 2 < 3.7 < curve.get_ydata()[-1] < 4.0
    assert panel.get_xlabel() == "length of the job, epochs"


def test_an_interval_wider_than_the_page_has_no_band_and_the_others_have():
    panel = draw("crossover", made_up(("cpu", "gpu", "tpu"), (256, 512), repeats=2, noise=0.3)).axes[0]
    low, high = panel.get_ylim()
    ends = {line.get_label(): line.get_ydata()[-1] for line in panel.lines if not line.get_label().startswith("_")}
    assert len(ends) == 4 and low < 1 < max(ends.values()) < high < 10 * max(ends.values())
    assert 0 < len(panel.collections) < 4, "two runs of these spread leave some intervals from 0.1 to 100"
    assert len(draw("crossover", made_up(("cpu", "gpu", "tpu"))).axes[0].collections) == 2


def test_how_many_have_reached_the_target_by_when():
    """Of `tpu b256 wd0` one run of three reaches it, when another has ended without it."""
    grid = aimed(odd())
    figure = draw("reached", grid)
    (panel,) = figure.axes
    lines = {line.get_label(): line for line in panel.lines if not line.get_label().startswith("_")}
    assert list(lines) == [
        "cpu b256 wd5e-4",
        "cpu b512 wd5e-4",
        "gpu b256 wd5e-4",
        "tpu b256 wd0",
        "tpu b256 wd5e-4",
        "tpu b512 wd5e-4",
    ]
    assert lines["gpu b256 wd5e-4"].get_ydata()[-1] == 100
    some = lines["tpu b256 wd0"]
    tried = [
        run
        for run in grid.latest.values()
        if (run.profile, run.cell.settings.batch_size, run.cell.settings.weight_decay) == ("tpu", 256, 0)
    ]
    took = sorted(map(timing.epochs, tried))
    assert some.get_xdata()[-1] == took[-1], "the line goes on as long as a run did"
    assert list(some.get_ydata()) == pytest.approx([0, 100 / 3, 100 / 3]), "both that missed it had all their epochs"
    first = min((run for run in grid.latest.values() if run in tried), key=timing.epochs)
    first.status = TrialStatus.TIMEOUT
    (stopped,) = [line for line in draw("reached", grid).axes[0].lines if line.get_label() == "tpu b256 wd0"]
    assert list(stopped.get_ydata()) == pytest.approx([0, 50, 50]), "one of two, for the third was stopped sooner"
    ticks = [line for line in panel.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert sum(len(line.get_xdata()) for line in ticks) == 2, "the two that missed it"
    assert panel.get_ylabel() == "share of runs at 78% accuracy, %"
    assert panel.get_title("left").splitlines() == [
        "cpu b256 wd0: 0 of 3",
        "cpu b512 wd0: 0 of 2",
        "gpu b256 wd0: 0 of 3, which ran out of memory or diverged",
        "and 2 more without a success",
    ]
    looks = {
        (line.get_marker(), str(line.get_linestyle()), line._dash_pattern[1] is not None) for line in lines.values()
    }
    assert len(looks) == len(lines), "told apart without colours"
    many = aimed(made_up(("cpu", "gpu"), (64, 128, 256, 512), (5e-4, 4e-4)), 0.7)
    assert len(draw("reached", many).axes[0].get_legend_handles_labels()[0]) == 2, "the best of each device"


def test_a_cell_has_one_look_in_every_figure():
    def look(name, label):
        line = next(line for panel in draw(name, grid).axes for line in panel.lines if line.get_label() == label)
        return line.get_color(), line.get_marker()

    grid = made_up(("cpu", "gpu", "tpu"))
    for device in ("gpu", "tpu"):
        assert len({look(name, device) for name in ("accuracy_by_epoch", "accuracy_by_time", "crossover")}) == 1
        assert look("time_and_cost", device) == look("crossover", device)
    grid = made_up(("cpu", "gpu"), (256, 512))
    assert len({look(name, "gpu b512") for name in ("accuracy_by_epoch", "accuracy_by_time", "crossover")}) == 1


LONG = {
    "cpu": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 96 cores",
    "gpu": "NVIDIA H100 80GB HBM3 (one of eight, NVLink off)",
    "tpu": "a_very_long_device_name_without_any_space_in_it_v5litepod-16",
}


def long_names():
    grid = made_up(tuple(LONG), (256, 512))
    cells = [replace(cell, axes={**cell.axes, "device": LONG[cell.axes["device"]]}) for cell in grid.cells]
    return replace(grid, cells=cells, baseline={"device": LONG["cpu"]})


GRIDS = {
    "odd": odd,
    "long names": long_names,
    "twelve on an axis": lambda: made_up(("cpu", "gpu"), tuple(2**n for n in range(12))),
    "two runs": lambda: made_up(("cpu", "gpu", "tpu"), (256, 512), (0.0, 5e-4), repeats=2, noise=0.3),
}


def out_of_view(figure):
    """Texts that nobody sees: of panels and labels that are not shown, and of ticks beyond the ends of an axis."""
    for panel in figure.axes:
        if not panel.get_visible():
            yield from panel.findobj(Text)
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                yield from (label for label in (tick.label1, tick.label2) if not label.get_visible())
                if not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
def test_no_text_is_cut_or_stands_on_another(grid):
    results = aimed(GRIDS[grid]())
    for name in figures.FIGURES:
        figure = draw(name, results)
        figure.draw_without_rendering()
        whole, shown = figure.bbox, []
        hidden = set(out_of_view(figure))
        for text in figure.findobj(Text):
            if not text.get_text() or text in hidden:
                continue
            box = text.get_window_extent()
            assert box.x0 > whole.x0 - 1 and box.x1 < whole.x1 + 1, (name, text.get_text())
            assert box.y0 > whole.y0 - 1 and box.y1 < whole.y1 + 1, (name, text.get_text())
            shown.append((text.get_text(), box))
        for number, (text, box) in enumerate(shown):
            for other, there in shown[:number]:
                over = box.intersection(box, there)
                assert over is None or min(over.width, over.height) < 2, (name, text, other)


def test_a_long_name_keeps_what_tells_it_from_others():
    assert fitted("gpu b512 wd5e-4") == "gpu b512 wd5e-4"
    short = [fitted(f"{LONG['cpu']} {batch}", 30) for batch in ("b256", "b512")]
    assert short == ["Intel(R) Xeon(R)…6 cores b256", "Intel(R) Xeon(R)…6 cores b512"]


def test_time_and_cost():
    figure = draw("time_and_cost", made_up())
    assert {"cpu", "gpu"} <= set(words(figure))
    assert figure.axes[0].get_ylabel() == "price of a run (unit of price_per_hour)"
    bare = made_up()
    without = GridResults("x", "y", [type(c)(c.cell_id, c.axes, c.repeats) for c in bare.cells], bare.latest, {})
    with pytest.raises(NoDataError, match="price_per_hour"):
        draw("time_and_cost", without)


def test_what_costs_nothing_has_its_mark():
    found = made_up(("cpu", "gpu", "tpu"))
    free = replace(found, cells=[replace(found.cells[0], price_per_hour=0.0), *found.cells[1:]])
    assert draw("time_and_cost", free).axes[0].get_yscale() == "linear", "0 has no place on a logarithmic axis"
    assert draw("time_and_cost", found).axes[0].get_yscale() == "log"


def test_what_has_nothing_to_show_is_left_out_and_says_why():
    drawn, left_out = rendered_figures(GridResults("x", "y", [], {}, {}))
    assert drawn == [] and set(left_out) == set(figures.FIGURES)
    assert left_out["times"] == "no run has completed"
    drawn, left_out = rendered_figures(made_up())
    assert set(left_out) == {"accuracy_map", "reached"} and "varies" in left_out["accuracy_map"]
    assert left_out["reached"] == "the grid has no target"
    assert [picture.name for picture in drawn] == [name for name in figures.FIGURES if name not in left_out]
    assert rendered_figures(aimed(made_up(), 0.99))[1]["reached"] == "no run has reached 99% accuracy"
    failed = made_up(ends={(device, 256, 5e-4, repeat): "oom" for device in ("cpu", "gpu") for repeat in range(3)})
    assert rendered_figures(failed)[1]["time_and_cost"] == "no run on a device with a price has completed"


@pytest.mark.slow
def test_an_svg_stands_in_a_page_by_itself():
    odd_name = '<script>alert("x")</script> $\\frac{1}{2}$'
    results = made_up()
    names = ["cpu", odd_name]
    cells = [
        type(cell)(cell.cell_id, {**cell.axes, "device": name}, 3)
        for cell, name in zip(results.cells, names, strict=True)
    ]
    named = GridResults("x", "y", cells, results.latest, {"device": "cpu"})
    for name in ("times", "crossover", "accuracy_by_time"):
        text = svg(draw(name, named), name)
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg") and "<script" not in text and "&lt;script" in text
        assert not re.search(r"(href|src)=\"(?!#)|url\((?!#)|@import", text)
        ids = re.findall(r' id="([^"]*)"', text)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(ids)
    drawn, _ = rendered_figures(made_up())
    ids = [name for picture in drawn for name in re.findall(r' id="([^"]*)"', picture.svg)]
    assert len(ids) == len(set(ids)), "also where several stand in one page"


def test_the_same_grid_gives_the_same_svg():
    assert svg(draw("reached", aimed(made_up())), "reached") == svg(draw("reached", aimed(made_up())), "reached")


@pytest.mark.slow
def test_figures_leave_no_trace():
    """Not in matplotlib's settings, and no window can open: in a process that draws one figure and nothing else."""
    code = """
import sys
from support.made_up_grids import made_up
from raybench.reporting.figures import draw, svg
import matplotlib
before = matplotlib.rcParams.copy()
svg(draw("times", made_up()), "times")
print(matplotlib.rcParams.copy() == before, "matplotlib.pyplot" in sys.modules)
"""
    paths = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
