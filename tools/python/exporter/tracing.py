"""PyTorch model to ONNX graph. What has no form in ONNX, or would fix the number of pictures, is replaced meanwhile; each
replacement is of a construct of Python or PyTorch, whichever model uses it."""
import builtins
import contextlib
import inspect
import re
import sys
import traceback
import types
from unittest import mock

from exporter.constructs import balancing, dropouts, experts, gradients, recurrences, rewriting
from exporter.errors import ExportError


def modelling_modules():
    return [module for name, module in list(sys.modules.items())
            if name.startswith("transformers.models.") and ".modeling_" in name]


@contextlib.contextmanager
def without_runtime_checks():
    """The comparison of placeholder and feature counts at run time has no translation to ONNX; omnibal-run checks the
    counts of every sample itself."""
    modules = [m for n, m in list(sys.modules.items())
               if n.startswith("transformers.") and hasattr(m, "torch_compilable_check")]
    saved = [m.torch_compilable_check for m in modules]
    for module in modules:
        module.torch_compilable_check = lambda *a, **k: None
    try:
        yield
    finally:
        for module, function in zip(modules, saved):
            module.torch_compilable_check = function


class ListMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.list)

    def __subclasscheck__(cls, other):
        return issubclass(other, builtins.list)


class ListOfAllRows(metaclass=ListMeta):
    """`list` where a tensor's pictures are listed to be joined again, which would fix their number: a list of one tensor
    with the rows of all pictures is the same once joined."""

    def __new__(cls, values=()):
        import torch
        if isinstance(values, torch.Tensor) and values.dim() > 1:
            return [values.flatten(0, 1)]
        return builtins.list(values)

    def __class_getitem__(cls, item):
        return builtins.list[item]


@contextlib.contextmanager
def without_listing():
    changed = [module for module in modelling_modules() if "list" not in vars(module)]
    for module in changed:
        module.list = ListOfAllRows
    try:
        yield
    finally:
        for module in changed:
            del module.list


@contextlib.contextmanager
def without_splitting():
    """A split into pictures by lengths that are data, to be joined again: one part with all rows is the same."""
    import torch
    original = torch.Tensor.split

    def split(tensor, sizes, dim=0):
        if isinstance(sizes, (list, tuple)) and any(isinstance(s, torch.SymInt) for s in sizes):
            return (tensor,)
        return original(tensor, sizes, dim)
    with mock.patch.object(torch.Tensor, "split", split), mock.patch.object(torch, "split", split):
        yield


@contextlib.contextmanager
def flat_forward(model, forward, names, added):
    """Gives the model a flat signature and logits as its result, beside them the routers' balancing loss where it is added
    to that of the tokens; the module tree, hence every name, stays."""
    bound = types.MethodType(lambda self, **inputs: added.results(forward(inputs)), model)
    function = lambda **inputs: bound(**inputs)
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    model.forward = function
    try:
        yield
    finally:
        del model.forward


@contextlib.contextmanager
def plain_attention():
    """Attention's fast paths decide by the batch, which may depend on data; the plain form computes the same."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.MATH):
        yield


@contextlib.contextmanager
def with_bodies_of_any():
    """`if mask.any():` around writing rows by that mask: without such rows the body writes nothing."""
    import torch
    original = torch.Tensor.any

    def any_(tensor, *arguments, **options):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not arguments and not options and caller.startswith("transformers.models."):
            return True
        return original(tensor, *arguments, **options)
    with mock.patch.object(torch.Tensor, "any", any_):
        yield


@contextlib.contextmanager
def with_masks_filled():
    """`values[mask] = number`: as a choice for every place, since how many the mask chooses depends on data."""
    import torch
    original = torch.Tensor.__setitem__

    def write(tensor, places, value):
        number = isinstance(value, (bool, int, float)) or isinstance(value, torch.Tensor) and value.dim() == 0
        if number and isinstance(places, torch.Tensor) and places.dtype == torch.bool:
            tensor.masked_fill_(places.reshape(*places.shape, *[1] * (tensor.dim() - places.dim())), value)
        else:
            original(tensor, places, value)
    with mock.patch.object(torch.Tensor, "__setitem__", write):
        yield


class AnyCount:
    """A number that depends on data, good for comparing alone: what it is compared with, it is."""
    __hash__ = None

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


@contextlib.contextmanager
def without_counting():
    """`if values[mask].numel() != features.numel(): raise`: omnibal-run checks the counts of every sample itself."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    original = torch.Tensor.numel

    def numel(tensor):
        count = original(tensor)
        by_data = isinstance(count, torch.SymInt) and free_unbacked_symbols(count)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return AnyCount() if by_data and caller.startswith("transformers.models.") else count
    with mock.patch.object(torch.Tensor, "numel", numel):
        yield


# So that their rows of features, and one row more, stay within 64 bits.
MOST_PICTURES, MOST_UNITS = 1 << 24, 1 << 40


def dimensions(inputs, axes, bounded=False):
    """Dynamic shapes for torch.export: sizes that are multiples of `units` share that symbol, others are found out.
    `bounded`: the number of pictures has a name and a bound."""
    import torch
    units = torch.export.Dim("units", max=MOST_UNITS)

    def dimension(name):
        if bounded and name == "images":
            return torch.export.Dim(name, max=MOST_PICTURES)
        match = re.fullmatch(r"(?:(\d+)\*)?units", name)
        if not match:
            return torch.export.Dim.DYNAMIC
        return int(match[1]) * units if match[1] else units
    return {name: {axis: dimension(text) for axis, text in axes.get(name, {}).items()} for name in inputs}


def exported(model, inputs, axes):
    """The traced program. Where rows chosen by data meet several rows for each picture, PyTorch finds that the number of
    the former might be too large, and says so by an assertion, unless pictures have a bound; elsewhere the bound is in
    its way."""
    import torch
    for bounded in (False, True):
        shapes = dimensions(inputs, axes, bounded)
        try:
            return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes, strict=False)
        except AssertionError as error:
            if bounded or "not a subset of src_bound" not in str(error):
                raise


def trace(model, facts, opset, dropout=True):
    """The graph, with initializers that are the model's parameters, and with its dropout unless told otherwise. Exported with
    optimize=False: the exporter's own optimizer merges equal parameters and folds transposes, which makes a graph unfit for
    training."""
    import torch
    inputs = facts.traced()
    with contextlib.ExitStack() as stack:
        for change in (torch.no_grad(), without_runtime_checks(), experts.traceable(model), with_masks_filled(), without_counting(),
                       recurrences.as_nodes(modelling_modules()),
                       *facts.changes()):
            stack.enter_context(change)
        if dropout:
            stack.enter_context(dropouts.kept())
        if facts.one_row:
            stack.enter_context(plain_attention())  # the number of pictures is counted in the values
        added = stack.enter_context(balancing.noted(model, modelling_modules()))
        forward = stack.enter_context(facts.forward(model))
        stack.enter_context(flat_forward(model, forward, list(inputs), added))
        # Sizes of 0 and 1 are no special cases, as in torch.onnx's own capture.
        stack.enter_context(torch.fx.experimental._config.patch(backed_size_oblivious=True))
        try:
            program = exported(model, inputs, facts.axes())
            for change in (gradients.with_detached_held, rewriting.with_shifts_padded, facts.finished,
                           rewriting.with_complex_unsqueezed, rewriting.with_sums_put,
                           rewriting.with_single_buckets_zero):
                program = change(program)
        except Exception as error:  # of many kinds, all about the model's code
            raise ExportError(f"{type(model).__name__}: tracing failed at {place_of(error)}: {first_line(error)}") from error
        try:
            names = ["logits"] if added.results(None) is None else ["logits", balancing.OUTPUT]
            ir = torch.onnx.export(program, (), opset_version=opset, optimize=False, output_names=names,
                                   custom_translation_table=translations(opset), verbose=False).model
        except Exception as error:
            raise ExportError(f"{type(model).__name__}: an operation has no form in ONNX: "
                              f"{first_line(error.__cause__ or error)}") from error
        if balancing.OUTPUT in names:
            ir.metadata_props[balancing.COEFFICIENT] = repr(added.coefficient)
        return ir


def translations(opset):
    """Of operators that PyTorch's exporter meets but does not know."""
    import onnxscript
    import torch
    operators = getattr(onnxscript, f"opset{opset}")
    return {torch.ops.prims.view_of.default: lambda value: operators.Identity(value), **dropouts.translations(operators)}


def first_line(error):
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:300]}"


def place_of(error):
    """The last line of the model's own code."""
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
              if "/transformers/" in frame.filename]
    return places[-1] if places else "its beginning"
