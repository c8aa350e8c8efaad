"""TorchTPU's adapter, on a made-up module of its interface and, if its environment is built, on the real one."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from support.frameworks import call

from raybench.devices import Assignment, open_device, torch_tpu, tpu

SET = ("TPU_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS", *tpu.PEERS)


@pytest.fixture
def clean(monkeypatch):
    for name in (*SET, torch_tpu.LEGACY, torch_tpu.AUTOLOAD):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def chip(clean, monkeypatch):
    """torch_tpu and a chip, as torch shows them; its precision of products."""
    chip = SimpleNamespace(precision="medium")
    monkeypatch.setitem(sys.modules, "torch_tpu", ModuleType("torch_tpu"))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: SimpleNamespace(type="tpu"))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: torch.ones(size))
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda value: setattr(chip, "precision", value))
    return chip


def opened(chips=("2",), precision="fp32"):
    device = open_device("tpu", "torch_tpu", Assignment([], list(chips), 1))
    device.hide_others()
    device.open(precision)
    return device


@pytest.mark.parametrize(
    ("chips", "variables"),
    [(["2"], ["2", "2", "1,1,1", "1,1,1", None, None, None]), ([], ["1", *[None] * 6])],
    ids=["assigned", "those of the caller"],
)
def test_visible_chips(clean, monkeypatch, chips, variables):
    monkeypatch.setenv("TPU_VISIBLE_DEVICES", "1")
    open_device("tpu", "torch_tpu", Assignment([], chips, 1)).hide_others()
    assert [os.environ.get(name) for name in SET] == variables


@pytest.mark.parametrize(("precision", "products"), [("fp32", "highest"), ("bf16", "medium"), ("", "medium")])
def test_only_fp32_multiplies_in_float32(chip, precision, products):
    opened(precision=precision)
    assert chip.precision == products


def test_without_a_chip(chip, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    with pytest.raises(RuntimeError, match="torch_tpu sees no TPU here; it supports v4"):
        opened()


@pytest.mark.slow
def test_the_real_package_has_the_used_interface():
    """It needs the environment `torch_tpu`; no chip, for which a made-up count stands."""
    found = call("torch_tpu", "torch_tpu_side:interface")
    assert found["without a chip"] == "torch_tpu sees no TPU here; it supports v4, v5e, v5p, v6e and TPU7x"
    assert found["accelerator"] == found["device"] == "tpu"
    assert found["precision"] == ["medium", "highest"]
    assert found["missing"] == []
    assert not found["loaded by torch alone"]
