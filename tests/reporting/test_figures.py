"""What figures show: their data and labels; how they look, people have to look at."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text
from support.answers import ANSWERS, devices_with_target, quick_start, three_axes

from raybench.analysis.answer import ToTarget
from raybench.reporting.figures import FIGURES, MAX_ROWS, NoDataError, draw, rendered_figures, svg


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def curve_of(pace, quality, metric):
    last = quality if metric == "val/accuracy" else 0.3
    return tuple((n, pace * n, last - 0.1 / n) for n in range(1, 5))


def with_curves(answer):
    """The answer with a learning curve of each run, parts of its time and a price."""
    configurations = []
    for each in answer.configurations:
        pace = each.seconds.value
        runs = [replace(run, curve=partial(curve_of, pace, each.quality.value)) for run in each.runs]
        metrics = {"val/accuracy": 0.9, "train/loss": 0.3}
        parts = {"setup": 1.0, "data": 1.0, "compile": 2.0, "train": 4 * pace, "evaluate": pace}
        configurations.append(
            replace(each, runs=tuple(runs), metrics=metrics, run_parts_s=parts, total_s=5 * pace, total_price=pace)
        )
    return replace(answer, configurations=tuple(configurations))


def test_speeds_are_relative_to_the_one_reference():
    figure = draw("speed", three_axes())
    speed, quality = figure.axes
    assert speed.get_yticklabels()[0].get_text() == "gpu, batch 512, decay 0"
    assert speed.get_xlabel() == "relative speed" and quality.get_xlabel() == "accuracy, %"
    assert {"9.2x", "reference", "0.98x"} <= set(texts(figure))
    intervals = [list(line.get_xdata()) for line in speed.lines if len(set(line.get_xdata())) == 2]
    assert [pytest.approx([8.832, 9.568])] == [each for each in intervals if each[0] > 8.7 and each[1] > 9.5]


def test_with_several_references_seconds_are_drawn():
    answer = three_axes()
    pairs = [replace(each, reference=each.index % 4) for each in answer.configurations]
    figure = draw("speed", replace(answer, configurations=tuple(pairs)))
    assert figure.axes[0].get_xlabel().replace("\n", " ") == "seconds per epoch (less is faster)"


def test_target_is_drawn():
    figure = draw("speed", devices_with_target())
    assert figure.axes[0].get_xlabel() == "relative speed to 94%"


def test_times_are_drawn_if_the_reference_missed():
    answer = devices_with_target()
    missed = replace(answer.configurations[0], to_target=ToTarget(0, 4))
    others = [replace(each, to_target=replace(each.to_target, ratio=None)) for each in answer.configurations[1:]]
    speed, _ = draw("speed", replace(answer, configurations=(missed, *others))).axes
    assert speed.get_xlabel().replace("\n", " ") == "seconds to 94% (less is faster)"
    assert [text.get_text() for text in speed.texts] == ["40.6", "60.0", "not reached"]


def test_speeds_are_drawn_if_all_missed():
    answer = devices_with_target()
    missed = [replace(each, to_target=ToTarget(0, 4)) for each in answer.configurations]
    speed, _ = draw("speed", replace(answer, configurations=tuple(missed))).axes
    assert speed.get_xlabel() == "relative speed"
    assert [text.get_text() for text in speed.texts] == ["8.0x", "6.7x", "reference"]


def test_many_configurations_keep_the_reference():
    answer = three_axes()
    many = [
        replace(answer.configurations[0], index=n, reference=99, label=f"b{n}", rank=n + 1, ratio=None)
        for n in range(100)
    ]
    figure = draw("speed", replace(answer, configurations=tuple(many), ranking=tuple(range(100))))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(names) == MAX_ROWS and names[0] == "b0" and names[-1] == "b99"


def test_learning_curves_are_labeled_at_their_ends():
    figure = draw("learning", with_curves(three_axes()))
    assert {each.label for each in three_axes().configurations} <= set(texts(figure))
    assert figure.legends == [] and figure.axes[0].get_legend() is None


def test_loss_is_drawn_beside_the_metric():
    answer = with_curves(three_axes())
    assert [draw(name, answer).axes[0].get_ylabel() for name in ("learning", "loss")] == ["accuracy, %", "train/loss"]


def test_parts_of_a_run_add_up():
    (panel,) = draw("time_parts", with_curves(quick_start())).axes
    rows = {round(bar.get_y(), 3): 0.0 for bar in panel.patches}
    for bar in panel.patches:
        rows[round(bar.get_y(), 3)] += bar.get_width()
    assert list(rows.values()) == pytest.approx([100.0, 100.0])
    assert {"9.00 s", "14.0 s"} <= set(texts(panel.figure))


def test_time_and_price_to_the_target():
    (panel,) = draw("time_and_price", devices_with_target()).axes
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines if line.get_marker() == "o"}
    assert points == {(400.0, 0.1), (40.6, 0.9), (60.0, 0.4)}
    assert panel.get_xlabel() == "time to 94% accuracy, s" and panel.get_ylabel() == "price to 94% accuracy, $"


def test_figures_without_data_are_left_out():
    assert list(rendered_figures(quick_start())) == ["speed"]
    with pytest.raises(NoDataError, match="price_per_hour"):
        draw("time_and_price", quick_start())


@pytest.mark.parametrize("name", ANSWERS)
def test_figures_are_svg_in_page_colors(name):
    for drawn in rendered_figures(ANSWERS[name]()).values():
        root = ElementTree.fromstring(drawn.svg)
        assert root.tag.endswith("svg") and "currentColor" in drawn.svg and "#010203" not in drawn.svg
        assert drawn.title == FIGURES[drawn.name].title


def test_odd_names_are_drawn_as_they_are():
    answer = quick_start()
    odd = [
        replace(each, label=name) for each, name in zip(answer.configurations, ("$x^2$ \x1b", "a" * 80), strict=True)
    ]
    figure = draw("speed", replace(answer, configurations=tuple(odd)))
    assert ElementTree.fromstring(svg(figure, "odd")).tag.endswith("svg")
    assert any("$x^2$" in text for text in texts(figure))


def test_long_labels_keep_every_value():
    axes = {"device": "h100", "batch_size": 512, "weight_decay": 5e-4, "precision": "bf16", "params.fused": True}
    one, other = quick_start().configurations
    shown = [replace(each, label="x" * 40, axes=axes | {"batch_size": each.index}) for each in (one, other)]
    answer = replace(quick_start(), configurations=tuple(shown), axes={axis: (value,) for axis, value in axes.items()})
    names = [label.get_text() for label in draw("speed", answer).axes[0].get_yticklabels()]
    assert names == ["h100, 1, 5e-4, bf16, fused", "h100, 0, 5e-4, bf16, fused"]


def test_drawing_opens_no_window_and_keeps_settings():
    code = (
        "import sys; from support.answers import three_axes; import matplotlib as mpl; mpl.rcParams['font.size'] = 17;"
        "from raybench.reporting.figures import rendered_figures; rendered_figures(three_axes());"
        "assert mpl.rcParams['font.size'] == 17 and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
