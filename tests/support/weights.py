"""Weights of a model as arrays in torch's layouts and order, by `layer.role`; of torch here, of Keras next to it."""

import numpy as np


def renamed(weights, like):
    """The weights under the names of another model: the same ones, or else by their order."""
    names = dict(zip(like, like if weights.keys() == like.keys() else weights, strict=True))
    for name, other in names.items():
        assert weights[other].shape == like[name].shape, f"{other} {weights[other].shape}, {name} {like[name].shape}"
    return {name: weights[other] for name, other in names.items()}


def _floats(model):
    """Parameters and statistics, except an RNN's second bias, frozen at zero: other frameworks have one bias."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad and "bias_hh" in name}
    return {n: t for n, t in model.state_dict().items() if t.is_floating_point() and n not in frozen}


def read(model):
    return {name: tensor.detach().float().cpu().numpy().copy() for name, tensor in _floats(model).items()}


def write(model, weights):
    import torch

    tensors = _floats(model)
    with torch.no_grad():
        for name, array in renamed(weights, read(model)).items():
            tensors[name].copy_(torch.from_numpy(np.array(array)))


def without_dropout(model):
    for module in model.modules():
        if "Dropout" in type(module).__name__:
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):  # of an RNN
            module.dropout = 0.0


def outputs(model, inputs):
    """Outputs for a batch in evaluation mode."""
    import torch

    weight = next(model.parameters())
    with torch.no_grad():
        result = model.eval()(torch.from_numpy(inputs).to(weight.device))
    return result.float().cpu().numpy()
