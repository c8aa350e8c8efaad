"""What a grid chooses of a workload's model: in the cell where it is not the default, refused where it is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raybench.config import load_grid
from raybench.errors import UsageError
from raybench.planning.node import probe_node
from raybench.planning.plan import make_plan


@pytest.mark.parametrize(
    ("workload", "chosen", "said"),
    [
        ("imdb_lstm", {"recurent_dropout": 0.2}, "not an option of imdb_lstm's model; did you mean recurrent_dropout?"),
        ("imdb_cnn", {"dropout": 0.2}, "not an option of imdb_cnn's model; the model has no options"),
        ("imdb_lstm", {"recurrent_dropout": "much"}, "'much' is not allowed; use a number"),
        ("imdb_lstm", {"recurrent_dropout": True}, "True is not allowed; use a number"),
        ("resunet", {"side": 32.5}, "32.5 is not allowed; use an integer"),
        ("resunet", {"skip": 1}, "1 is not allowed; use a text"),
    ],
)
def test_unknown_model_option_is_refused_with_its_line(tmp_path, workload: str, chosen: dict, said: str) -> None:
    (name,) = chosen
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps({"name": "g", "workload": workload, "model": chosen}, indent=0))
    with pytest.raises(UsageError) as caught:
        make_plan(load_grid(path), [probe_node()], tmp_path)
    assert str(caught.value) == f"{path}:4:1: model.{name}: {said}"


def test_data_options_reach_the_data_and_the_model() -> None:
    from raybench import datasets, workloads

    resunet = workloads.get("resunet")
    data = datasets.get("scenes-synthetic").load(Path("/nowhere"))
    assert resunet.prepare_data(data).train.inputs.shape[1:] == (96, 96, 6)
    small = resunet.with_options({"side": 32}).prepare_data(data).train
    assert (small.inputs.shape[1:], small.targets.shape[1:]) == ((32, 32, 6), (2, 32, 32))
    for wrong in (33, 8, -16, 0, 112):
        with pytest.raises(ValueError, match=f"^model.side: {wrong} is not a multiple of 16 from 16 to 96"):
            resunet.with_options({"side": wrong}).prepare_data(data)
    with pytest.raises(ValueError, match=r"^model.skip: 'both' is neither 'add' nor 'concat'"):
        resunet.with_options({"skip": "both"}).build_model("torch")
