"""A training step that is traced once and repeated by a loop on the device.

torch_xla traces every step anew, which can take the host longer than a TPU needs to compute it. Here the trace of one
step becomes the body of an XLA loop, built as in `torch_xla.experimental.scan`. The number of steps is an argument, so
a shorter call is the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch_xla
from torch_xla.core import xla_builder as xb

_XLAC: Any = torch_xla._XLAC  # torch_xla has no public functions for computations

INCREMENT, MULTIPLIER = 1012031, 7012063
"""How torch_xla makes the random seed of a step from that of the step before, modulo 2⁶⁴."""

Trace = Callable[[torch.Tensor], Sequence[tuple[torch.Tensor, torch.Tensor]]]


def later_seed(seed: int, steps: int) -> int:
    """The random seed after a number of steps."""
    for _ in range(steps):
        seed = (INCREMENT + seed * MULTIPLIER) % 2**64
    return seed


class StepLoop:
    """A loop over the steps of a call, whose body is recorded here.

    The Python code of the step does not run again. A tensor that it reads keeps the value of now, unless it is carried,
    changed in place, or given.

    Args:
        trace: traces one step from its number in the call [1], and returns the tensors that it carries to the next one:
            for each, its value before and after.
        in_place: tensors on the device that the step may change in place.
        given: tensors that the step reads and that each call replaces by others of the same shapes.

    Raises:
        RuntimeError: the step reads a value on the host, or two of the tensors share their memory.
    """

    def __init__(self, trace: Trace, in_place: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        torch_xla.sync(wait=True)
        before = [tensor.detach().clone() for tensor in in_place]
        position = torch.zeros(1, dtype=torch.int64).to("xla")
        try:
            with _recording():
                carried = list(trace(position))
            is_changed = _XLAC._check_tensor_need_materialization(list(in_place))
            self._in_place = [tensor for tensor, changed in zip(in_place, is_changed, strict=True) if changed]
            old = [tensor for tensor, changed in zip(before, is_changed, strict=True) if changed]
            self._carried = len(carried)
            self._build(position, [*carried, *zip(old, self._in_place, strict=True)], given)
        finally:
            _XLAC._clear_pending_irs(str(torch_xla.device()))  # what was recorded must not be computed
            with torch.no_grad():
                for tensor, value in zip(in_place, before, strict=True):
                    tensor.copy_(value)
            torch_xla.sync()

    def _build(
        self, position: torch.Tensor, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], given: Sequence[torch.Tensor]
    ) -> None:
        """Build the loop, with the program of the recorded step as its body.

        The loop has the variables `done`, `steps` and `seed`, then those of the pairs, the given and the fixed ones.
        """
        after = [value for _, value in pairs]
        context = _XLAC.lowering.LoweringContext("Step")
        context.build(after)
        step = xb.computation_from_module_proto("step", context.hlo())
        variables = [*(value for value, _ in pairs), *given]
        places: dict[int, int] = {}  # of each parameter of the step among the variables of the loop
        for place, tensor in enumerate(variables, start=3):
            number = context.tensor_parameter_id(tensor)
            if number in places:
                raise RuntimeError("two tensors of the training step share their memory")
            if number >= 0:
                places[number] = place
        numbered = context.tensor_parameter_id(position)
        identities, values = _XLAC._get_tensors_xla_device_data_node(after)
        self._fixed: list[torch.Tensor] = []
        for identity, value in zip(identities, values, strict=True):
            number = context.tensor_parameter_id(value)
            if identity == _XLAC._get_seed_info_id():
                places[number] = 2
            elif number != numbered and number not in places:
                places[number] = 3 + len(variables) + len(self._fixed)
                self._fixed.append(value)

        def body(*ops: xb.Op) -> tuple[xb.Op, ...]:
            done, steps, seed, *others = ops
            inputs = {number: ops[place] for number, place in places.items()} | {numbered: done.reshape([1])}
            results = xb.Op.call(step, [inputs[number] for number in sorted(inputs) if number >= 0])

            def constant(value: int) -> xb.Op:
                return xb.Op.scalar(done.builder(), value, dtype=xb.Type.S64)

            next_seed = constant(INCREMENT) + seed * constant(MULTIPLIER)
            changed = [results.get_tuple_element(number) for number in range(len(pairs))]
            return (done + constant(1), steps, next_seed, *changed, *others[len(pairs) :])

        builder = xb.create_builder("steps")
        one_number = xb.mkshape(xb.Type.S64, [1])
        shapes = [one_number, one_number, *map(xb.tensor_shape, [*variables, *self._fixed])]
        steps, seed, *others = (xb.mkparam(builder, number, shape) for number, shape in enumerate(shapes))
        zero = xb.Op.scalar(builder, 0, dtype=xb.Type.S64)
        start = [zero, steps.reshape([]), seed.reshape([]), *others]
        loop = xb.Op.mkwhile(start, lambda done, steps, *_: done < steps, body)
        changed = [loop.get_tuple_element(3 + number) for number in range(len(pairs))]
        self._program = xb.Op.tuple(changed).build("steps")

    def run(
        self, steps: int, seed: int, carried: Sequence[torch.Tensor], given: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        """Submit a number of steps, without waiting for them.

        Args:
            seed: the random seed of the first of these steps; the others follow from it as by `later_seed`.
            carried: the carried tensors before the first of these steps.
            given: in the order of the constructor.

        Returns:
            The carried tensors after the last one.
        """
        signed = (seed + 2**63) % 2**64 - 2**63
        numbers = [torch.tensor([value]).to("xla") for value in (steps, signed)]  # a scalar of 0 or 1 is a constant
        inputs = [*numbers, *carried, *self._in_place, *given, *self._fixed]
        results: Sequence[torch.Tensor] = _XLAC._xla_user_computation("raybench::steps", inputs, self._program)
        with torch.no_grad():
            for tensor, value in zip(self._in_place, results[self._carried :], strict=True):
                tensor.copy_(value)
        results = results[: self._carried]
        torch_xla.sync()
        return results


@contextmanager
def _recording() -> Iterator[None]:
    """Forbid execution: a step that needs a value on the host would be several programs.

    Raises:
        RuntimeError: the step did; the traceback is that of its line.
    """
    _XLAC._set_allow_execution(False)
    try:
        yield
    except RuntimeError as error:
        if "Unexpected execution" not in str(error):
            raise
        message = "a training step reads a value of a tensor, so it cannot be repeated on the device"
        raise RuntimeError(f"{message}; set steps_per_execution: 1").with_traceback(error.__traceback__) from None
    finally:
        _XLAC._set_allow_execution(True)
