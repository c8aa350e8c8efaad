"""Weights of a functional or sequential Keras model, in the form of `support.weights`."""

import numpy as np
from keras import layers

from support.weights import renamed

KEEP_ORDER = (layers.Activation, layers.BatchNormalization, layers.Dropout, layers.ReLU, layers.Rescaling)


def _leaves(model):
    for layer in model.layers:
        yield from _leaves(layer) if hasattr(layer, "layers") else [layer]


def _image(layer):
    """Height, width and channels of a flattened input; None if it is not flattened."""
    tensor = layer.input
    while True:
        operation = tensor._keras_history.operation
        if isinstance(operation, layers.Flatten):
            shape = tuple(operation.input.shape[1:])
            return shape if len(shape) == 3 else None
        if not isinstance(operation, KEEP_ORDER) or isinstance(operation, layers.InputLayer):
            return None
        tensor = operation.input


def _lstm(layer, direction=""):
    cell = layer.cell
    return {
        f"weight_ih_l0{direction}": (cell.kernel, (1, 0)),
        f"weight_hh_l0{direction}": (cell.recurrent_kernel, (1, 0)),
        f"bias_ih_l0{direction}": (cell.bias, (0,)),
    }


def _variables(layer):
    """For each role a variable and torch's order of its axes; of a flattened image also its axes."""
    if isinstance(layer, layers.Bidirectional):
        return _lstm(layer.forward_layer) | _lstm(layer.backward_layer, "_reverse")
    if isinstance(layer, layers.LSTM):
        return _lstm(layer)
    if isinstance(layer, layers.Embedding):
        return {"weight": (layer.embeddings, (0, 1))}
    if isinstance(layer, layers.LayerNormalization):
        return {"weight": (layer.gamma, (0,)), "bias": (layer.beta, (0,))}
    image = _image(layer)
    if isinstance(layer, layers.BatchNormalization):
        found = {"weight": layer.scale and layer.gamma, "bias": layer.center and layer.beta}
        found |= {"running_mean": layer.moving_mean, "running_var": layer.moving_variance}
        order = ((2, 0, 1), image) if image else ((0,),)
        return {role: (variable, *order) for role, variable in found.items() if variable is not None}
    assert isinstance(layer, (layers.Dense, layers.Conv1D, layers.Conv2D)), f"no torch layer for {layer}"
    axes = len(layer.kernel.shape)
    order = (axes - 1, axes - 2, *range(axes - 2))
    weight = (layer.kernel, (3, 2, 0, 1), (*image, layer.kernel.shape[-1])) if image else (layer.kernel, order)
    return {"weight": weight} | ({"bias": (layer.bias, (0,))} if layer.use_bias else {})


def _all(model):
    """Yield the name, the variable, the order of its axes and their lengths, with those that Keras merges apart."""
    for layer in _leaves(model):
        if layer.weights:
            for role, (variable, order, *inner) in _variables(layer).items():
                yield f"{layer.name}.{role}", variable, order, inner[0] if inner else tuple(variable.shape)


def read(model):
    found = {}
    for name, variable, order, inner in _all(model):
        array = np.asarray(variable).reshape(inner).transpose(order)
        merged = len(inner) > len(variable.shape)
        found[name] = array.reshape((len(array), -1) if merged and len(inner) == 4 else -1) if merged else array
    return found


def write(model, weights):
    given = renamed(weights, read(model))
    for name, variable, order, inner in _all(model):
        array = given[name].reshape([inner[axis] for axis in order]).transpose(np.argsort(order))
        variable.assign(array.reshape(variable.shape))


def without_dropout(model):
    for layer in model._flatten_layers():
        if isinstance(layer, layers.Dropout):
            layer.rate = 0.0
        elif isinstance(layer, layers.LSTMCell):
            layer.dropout = layer.recurrent_dropout = 0.0


def outputs(model, inputs):
    """Outputs for a batch in evaluation mode."""
    return np.asarray(model(inputs, training=False), np.float32)
