"""Epochs and metrics in the output of a command."""

import pytest

from raybench.trial.command_output import Lines, Metrics, OutputError
from raybench.workloads.command import Command

PATTERNS = {"epoch": r"^epoch (\d+)", "val/accuracy": r"acc=([\d.]+)", "train/loss": r"loss=(\S+)"}


def read(text, metrics=PATTERNS, json_lines=False):
    reader = Metrics(Command(("x",), metrics={} if json_lines else metrics, json_lines=json_lines))
    epochs = [epoch for line in text.splitlines() if (epoch := reader.read(line)) is not None]
    return reader, epochs


def test_ends_of_lines():
    lines = Lines()
    assert lines.feed(b"one\ntwo\r\nthr") == ["one", "two"]
    assert lines.feed(b"ee\r10%\r20%") == ["three", "10%"]
    assert lines.feed(b"", last=True) == ["20%"]


def test_invalid_and_split_utf_8():
    lines = Lines()
    assert lines.feed(b"\xff loss=1\n") == ["� loss=1"]
    assert lines.feed("é".encode()[:1]) == []
    assert lines.feed("é".encode()[1:] + b"\n") == ["é"]


def test_an_endless_line_is_cut():
    lines = Lines()
    assert len(lines.feed(b"a" * (1 << 20) + b"aa")) == 1
    assert lines.feed(b"b\n") == ["b"]


def test_metrics_before_and_in_an_epochs_line():
    reader, epochs = read("acc=0.5\nepoch 1 loss=0.9\nacc=0.6\nacc=0.7\nepoch 2 loss=0.8\nacc=0.75\n")
    assert epochs == [{"val/accuracy": 0.5, "train/loss": 0.9}, {"val/accuracy": 0.7, "train/loss": 0.8}]
    assert reader.current == {"val/accuracy": 0.75}, "of the end, after the last epoch"
    assert reader.missing() is None


def test_a_pattern_that_never_matches_is_named():
    reader, _ = read("epoch 1 loss=1\nepoch 2 loss=1")
    assert reader.missing() == r"no line of the output matches val/accuracy: acc=([\d.]+)"


def test_nearest_line_of_an_unmatched_pattern():
    reader, _ = read("epoch 1 loss=1\nTest Accuracy : 0.93\nepoch 2 loss=1")
    assert reader.missing().endswith(r"acc=([\d.]+); the nearest is 'Test Accuracy : 0.93'")


def test_metrics_after_their_epochs_line():
    reader, _ = read("epoch 1 loss=1\nacc=0.5\nepoch 2 loss=1\nacc=0.6\n")
    assert "val/accuracy is printed after the line that ends its epoch" in reader.missing()


def test_a_metric_of_the_end_alone_is_none():
    reader, _ = read("epoch 1 loss=1\nepoch 2 loss=1\nacc=0.6\n")
    assert reader.missing() is None


@pytest.mark.parametrize("text", ["epoch 1\nepoch 1\n", "epoch 2\nepoch 1"])
def test_an_epoch_ends_once(text):
    with pytest.raises(OutputError, match=r"has to match one line per epoch, the last"):
        read(text)


def test_json_lines_with_keys():
    keys = {"epoch": "epoch", "val/accuracy": "val.acc", "train/loss": "loss"}
    text = '{"loss": 0.5}\nno json\n{not json}\n{"epoch": 1, "val": {"acc": 0.7}}\n'
    _, epochs = read(text, json_lines=keys)
    assert epochs == [{"train/loss": 0.5, "val/accuracy": 0.7}]


def test_json_lines_with_the_names_of_the_metrics():
    reader, epochs = read('{"epoch": 0, "val/accuracy": 0.7, "lr": 0.1, "note": "x"}', json_lines=True)
    assert epochs == [{"val/accuracy": 0.7}]
    assert list(reader.warnings()) == [
        "lr was left out: name its data, such as `json_lines: {epoch: epoch, train/lr: lr}`"
    ]


def test_null_is_no_value():
    _, epochs = read('{"epoch": 1, "val/accuracy": null, "train/loss": 0.5}', json_lines=True)
    assert epochs == [{"train/loss": 0.5}]
