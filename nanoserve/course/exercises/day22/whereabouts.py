"""Where tensors would lie on a machine with another device.

The "meta" device could be asked directly, but there `tril` and `eye` import sympy first: seconds of the learner's time.
"""

from collections.abc import Callable, Iterator

import torch
from torch.overrides import TorchFunctionMode

_CPU = torch.device("cpu")
_MOVES = (torch.Tensor.to, torch.Tensor.type_as)


class Elsewhere(TorchFunctionMode):
    """Inside the block, a device is stood in for by the CPU, and whose tensors would lie there is written down.

    Args:
        device: the one that is stood in for.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self._there: dict[int, torch.Tensor] = {}  # by id, and kept, so that no id is given twice

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor would lie on the device."""
        return id(tensor) in self._there

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        """One call of torch's, with the CPU in the device's place.

        Raises:
            RuntimeError: tensors of the device and of the CPU meet.
        """
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        given = list(_leaves((args, kwargs)))
        devices = [value for value in given if isinstance(value, torch.device)]
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        if func == torch.Tensor.device.__get__:
            return self.device if args[0] in self else _CPU
        sides = {tensor in self for tensor in tensors if tensor.dim()}
        if len(sides) > 1 and func not in _MOVES:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found {self.device} and cpu!")
        result = func(*map(self._stood_in, args), **{name: self._stood_in(value) for name, value in kwargs.items()})
        if devices or func is torch.Tensor.cpu:
            there = self.device in devices
        else:
            there = (tensors[-1] in self) if func in _MOVES else any(tensor in self for tensor in tensors)
        for made in _leaves(result):
            if isinstance(made, torch.Tensor):
                self._there.pop(id(made), None)  # `cpu()` of what is there gives the very same tensor
                if there:
                    self._there[id(made)] = made
        return result

    def _stood_in(self, value: object) -> object:
        return _CPU if isinstance(value, torch.device) and value == self.device else value


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
