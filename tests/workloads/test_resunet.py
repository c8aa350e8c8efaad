"""The U-nets: the same in both frameworks, and losses and metrics that say what they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.frameworks import call

from raybench import workloads
from raybench.config import load_grid
from raybench.datasets import synthetic_scenes
from raybench.engines.torch import inspection
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

GRIDS = Path(__file__).parents[2] / "grids"

PICTURES, TARGETS = synthetic_scenes.render(np.arange(2, dtype=np.uint64))


def perfect(targets: np.ndarray) -> torch.Tensor:
    """Logits that are as sure as they can be of the mask, and right about the depth."""
    share = torch.from_numpy(targets).float() / 255
    return torch.stack([40 * share[:, 0] - 20, torch.logit(share[:, 1], 1e-6)], 1)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["resunet_v2", pytest.param("resunet_v1", marks=pytest.mark.exhaustive)])
def test_both_frameworks_make_the_same_of_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    workload = workloads.get(name)
    model = workload.build_model("torch")
    inputs = PICTURES.astype(np.float32) / 255
    np.save(tmp_path / "inputs.npy", inputs)
    np.save(tmp_path / "targets.npy", TARGETS)
    np.savez(tmp_path / "weights.npz", **inspection.read_weights(model))
    files = {key: str(next(tmp_path.glob(f"{key}.*"))) for key in ("inputs", "weights", "targets")}
    theirs = call("tensorflow", "keras_models:resunet_agrees", name=name, **files)
    ours = inspection.outputs(model, inputs.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(np.array(theirs.pop("outputs")), ours, atol=1e-4)
    outputs, targets = torch.from_numpy(ours), torch.from_numpy(TARGETS)
    values = {"loss": workload.loss_for("torch")(outputs, targets), **workload.metrics_for("torch")(outputs, targets)}
    assert theirs.keys() == values.keys() == {"loss", *workload.metric_names}
    for key, value in values.items():
        np.testing.assert_allclose(theirs[key], value.numpy(), rtol=1e-3, err_msg=key)


@pytest.mark.parametrize("name", ["resunet_v1", "resunet_v2"])
def test_what_is_right_has_an_iou_of_one_and_the_least_loss(name: str) -> None:
    workload, targets = workloads.get(name), torch.from_numpy(TARGETS)
    right = perfect(TARGETS)
    values = workload.metrics_for("torch")(right, targets)
    assert values["mask_iou"].tolist() == [1.0, 1.0]
    assert values["depth_rmse"].max() < 1e-4
    loss = workload.loss_for("torch")
    for wrong in (right.flip(0), -right, torch.zeros_like(right)):
        assert (loss(wrong, targets) > loss(right, targets) + 0.1).all()


def test_iou_by_hand() -> None:
    targets = np.zeros((2, 2, 4, 4), np.uint8)
    targets[0, 0, :2] = 255
    outputs = torch.full((2, 2, 4, 4), -1.0)
    outputs[0, 0, 1:3] = 1.0
    found = workloads.get("resunet_v2").metrics_for("torch")(outputs, torch.from_numpy(targets))
    assert found["mask_iou"].tolist() == [pytest.approx(4 / 12), 1.0], "nothing found where there is nothing"


@pytest.mark.exhaustive
def test_the_small_grid_finds_masks_and_depths(tmp_path: Path) -> None:
    """As it is shipped: 75 steps of 8 pictures of 32×32; an IoU of .885 and a depth error of .09 were seen."""
    options = Options(tmp_path / "results", where=[("device", "cpu")], checks=False, tracking=None, report=False)
    outcome = run_grid(load_grid(GRIDS / "resunet_small.yaml"), InlineExecutor(), options=options)
    (run,) = outcome.latest.values()
    last = run.epochs[-1].metrics
    assert (sum(epoch.steps for epoch in run.epochs), run.epochs[-1].examples) == (75, 200)
    assert last["val/mask_iou"] > 0.8
    assert last["val/depth_rmse"] < 0.12


@pytest.mark.slow
def test_the_concatenating_form_is_another_model() -> None:
    chosen = workloads.get("resunet_v1").with_options({"concatenate": True}).build_model("torch")
    assert inspection.parameter_count(chosen) == 39_847_052
    with torch.no_grad():
        assert chosen.eval()(torch.zeros(1, 6, 32, 32)).shape == (1, 2, 32, 32)
