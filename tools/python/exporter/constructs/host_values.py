"""What follows from the sizes of pictures is known while a model is traced: it is computed at once, on the host.

Models turn sizes into lengths, positions and masks and then ask for numbers (`.tolist()`, `int(...)`, `if ...`), which
tracing cannot answer. Here every tensor that was made of known numbers alone keeps its value beside the traced one; what
is asked of it is answered from there.
"""
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils import _pytree as pytree

from exporter.errors import ExportError

# Functions that make a tensor of numbers.
MAKERS = {torch.arange, torch.tensor, torch.as_tensor, torch.zeros, torch.ones, torch.full, torch.linspace, torch.eye}
# Functions that take tensors of one number where they want a size or a place.
SIZED = {"reshape", "view", "expand", "split", "repeat", "narrow", "unflatten", "new_zeros", "new_ones", "new_empty", "new_full",
         "__getitem__", "__setitem__"}
LARGEST_MATRIX = 4096  # rows
RESAMPLING = {torch.nn.functional.interpolate, torch.nn.functional.grid_sample}
UNKNOWN = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_plain(tensor):
    """A tensor with values of its own, which no tracing has seen."""
    return type(tensor) is torch.Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def writes_into_first(function):
    name = getattr(function, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def as_matrix(function, value, args, kwargs):
    """Resampling at known places is linear: a product with a matrix that the function itself gives for unit vectors.
    The last two dimensions of `value` are resampled."""
    height, width = (int(n) for n in value.shape[-2:])
    if function is torch.nn.functional.interpolate and height * width > LARGEST_MATRIX:
        return along_axes(value, args, kwargs)
    with _disable_current_modes():
        units = torch.eye(height * width, dtype=torch.float32).reshape(1, height * width, height, width)
        result = function(units, *args, **kwargs)[0]
        matrix = result.flatten(1)
    return (value.flatten(-2) @ matrix).unflatten(-1, tuple(result.shape[1:]))


def along_axes(value, args, kwargs):
    """Interpolation alone, one axis after the other: of large tables the matrix of both would be too large."""
    height, width = (int(n) for n in value.shape[-2:])
    with _disable_current_modes():
        rows = torch.eye(height)[None, :, :, None].expand(1, height, height, width).contiguous()
        columns = torch.eye(width)[None, :, None].expand(1, width, height, width).contiguous()
        rows = torch.nn.functional.interpolate(rows, *args, **kwargs)[0, :, :, 0]
        columns = torch.nn.functional.interpolate(columns, *args, **kwargs)[0, :, 0]
    return (value @ columns).transpose(-1, -2).matmul(rows).transpose(-1, -2)


class HostValues(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.known = {}  # id of a traced tensor: (that tensor, its value)

    def value(self, tensor):
        if id(tensor) in self.known:
            return self.known[id(tensor)][1]
        return tensor if is_plain(tensor) else None

    def keep(self, value):
        """A constant of the graph with that value."""
        if not isinstance(value, torch.Tensor):
            return value
        traced = torch.ops.aten.lift_fresh_copy.default(value)
        self.known[id(traced)] = (traced, value)
        return traced

    def number(self, value):
        """A known whole number in place of a tensor that holds it; others as they are."""
        if isinstance(value, slice):
            return slice(*(self.number(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.number, value))
        if isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype in (torch.int32, torch.int64):
            known = self.value(value)
            if known is not None:
                with _disable_current_modes():
                    return int(known)
        return value

    def written(self, tensor):
        """A known tensor is written into, in the graph too; parts of another one have copies in the graph."""
        _, value = self.known[id(tensor)]
        same = value.untyped_storage().data_ptr()
        if sum(other.untyped_storage().data_ptr() == same for _, other in self.known.values()) > 1:
            raise ExportError("a part of a tensor that follows from sizes is written into")

    def rows_of(self, mask):
        """The places that a known mask chooses, one tensor for each of its dimensions; None for anything else."""
        known = self.value(mask) if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and mask.dim() else None
        if known is None:
            return None
        with _disable_current_modes():
            return known.nonzero(as_tuple=True)

    def chosen(self, values, places):
        """`values[places]` with known masks as places by number, of which there are as many as the masks say; None where
        there is no known mask."""
        rows = self.rows_of(places)
        if rows is not None:
            flat = values.flatten(0, len(rows) - 1)
            with _disable_current_modes():
                numbers = torch.arange(places.numel()).reshape(places.shape)[rows]
            return flat if len(numbers) == places.numel() else flat.index_select(0, self.keep(numbers))
        if not isinstance(places, tuple) or all(self.rows_of(place) is None for place in places):
            return None
        by_number = [(place,) if self.rows_of(place) is None else map(self.keep, self.rows_of(place)) for place in places]
        return values[tuple(place for group in by_number for place in group)]

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if args and getattr(function, "__name__", "") in SIZED:
            args = (args[0], *map(self.number, args[1:]))
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        values = [self.value(tensor) for tensor in tensors]
        known = all(value is not None for value in values) and not any(isinstance(leaf, UNKNOWN) for leaf in leaves)
        if not known or not (tensors or function in MAKERS):
            if function in RESAMPLING and all(value is not None for value in values[1:]) and args[0].dim() == 4:
                rest = [self.value(part) if isinstance(part, torch.Tensor) else part for part in args[1:]]
                if not (rest and isinstance(rest[0], torch.Tensor) and len(rest[0]) != 1):  # places of one picture
                    return as_matrix(function, args[0], rest, kwargs)
            if function is torch.Tensor.__getitem__:
                chosen = self.chosen(*args)
                if chosen is not None:
                    return chosen
            if tensors and tensors[0] is leaves[0] and writes_into_first(function):
                self.known.pop(id(tensors[0]), None)  # from here on it holds what is not known
            return function(*args, **kwargs)
        plain = pytree.tree_unflatten([self.value(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec)
        with _disable_current_modes():
            result = function(*plain[0], **plain[1])
        if writes_into_first(function):
            if id(args[0]) in self.known:
                self.written(args[0])
                function(*args, **kwargs)  # in the graph too
            return args[0] if result is not None else None
        given = {id(value): tensor for value, tensor in zip(values, tensors)}  # a conversion may do nothing
        return pytree.tree_map(lambda part: given[id(part)] if id(part) in given else self.keep(part), result)
