"""How each parameter of a model comes from the tensors of its checkpoint.

Names in a checkpoint and in memory differ for most families, and a parameter may be a part, a join or a transpose of
tensors (fused query, key and value; stacked experts). Transformers knows all that: its own loader is run here on
tensors without memory, and what it does to them is written down.
"""
import contextlib
import types
from unittest import mock

from exporter.errors import ExportError


class Step:
    """One operation on tensors, of known result shape; `inputs` are Steps or checkpoint.Tensors."""

    def __init__(self, kind, inputs, shape, **attributes):
        self.kind, self.inputs, self.shape, self.attributes = kind, inputs, list(shape), attributes


def recorder_class():
    """A dispatch mode that knows for each tensor without memory which Step made it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    aten = torch.ops.aten
    same = {aten.detach.default, aten._to_copy.default, aten.clone.default, aten.alias.default,
            aten.lift_fresh.default, aten.contiguous.default}
    reshapes = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.squeeze.default,
                aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default}

    class Recorder(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.origin, self.alive = {}, []

        def know(self, tensor, origin):
            self.origin[id(tensor)] = origin
            self.alive.append(tensor)  # so that no other tensor gets its id

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            first = args[0] if args else None
            if isinstance(first, (list, tuple)):
                known = [self.origin.get(id(t)) for t in first]
            else:
                known = [self.origin.get(id(first))]
            if not known or any(k is None for k in known):
                return result
            results = [result] if isinstance(result, torch.Tensor) else list(result)
            for number, tensor in enumerate(results):
                self.know(tensor, self.step(function, known, args, tensor, results[:number]))
            return result

        def step(self, function, known, args, result, before):
            rank = len(known[0].shape)
            axis = lambda n, default=0: (args[n] if len(args) > n else default) % rank
            if function in same:
                return known[0]
            if function in reshapes:
                return Step("Reshape", known, result.shape)
            if function is aten.transpose.int:
                order = list(range(rank))
                a, b = axis(1), axis(2)
                order[a], order[b] = b, a
                return Step("Transpose", known, result.shape, perm=order)
            if function is aten.permute.default:
                return Step("Transpose", known, result.shape, perm=[a % rank for a in args[1]])
            if function is aten.t.default:
                return Step("Transpose", known, result.shape, perm=[1, 0][:rank])
            if function in (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default):
                at = axis(2)
                begin = sum(t.shape[at] for t in before)
                return Step("Slice", known, result.shape, axis=at, begin=begin, end=begin + result.shape[at])
            if function is aten.slice.Tensor and (len(args) < 5 or args[4] == 1):
                at = axis(1)
                begin = (args[2] if len(args) > 2 else 0) or 0
                begin += known[0].shape[at] if begin < 0 else 0
                return Step("Slice", known, result.shape, axis=at, begin=begin, end=begin + result.shape[at])
            if function in (aten.select.int, aten.unbind.int):
                at = axis(1)
                place = args[2] % known[0].shape[at] if function is aten.select.int else len(before)
                kept = list(known[0].shape)
                kept[at] = 1
                part = Step("Slice", known, kept, axis=at, begin=place, end=place + 1)
                return Step("Reshape", [part], result.shape)
            if function is aten.cat.default:
                return Step("Concat", known, result.shape, axis=axis(1))
            if function is aten.stack.default:
                at = (args[1] if len(args) > 1 else 0) % (rank + 1)
                one = list(result.shape)
                one[at] = 1
                return Step("Concat", [Step("Reshape", [k], one) for k in known], result.shape, axis=at)
            raise ExportError(f"Transformers makes a parameter from the checkpoint's tensors by {function}, which this "
                              "exporter does not know")

    return Recorder


@contextlib.contextmanager
def collecting(result):
    """Transformers' loader hands each finished parameter to `result` and leaves the model alone."""
    import os
    import transformers.core_model_loading as loading

    def collect(model, name, value, info, *rest, **options):
        result[name] = value
        info.missing_keys.discard(name)

    with mock.patch.object(loading, "set_param_for_module", collect), \
            mock.patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"}), \
            mock.patch.object(loading, "tqdm", lambda things, *a, **k: things):
        yield


def origins(model, tensors):
    """{name in memory: checkpoint.Tensor or Step}, as Transformers would load this checkpoint."""
    import torch
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import convert_and_load_state_dict_in_model
    result = {}
    recorder = recorder_class()()
    with recorder, collecting(result):
        state = {}
        for name, tensor in tensors.items():
            state[name] = torch.empty(tensor.shape, device="meta", dtype=torch.float32)
            recorder.know(state[name], tensor)
        settings = types.SimpleNamespace(
            device_map={"": "meta"}, hf_quantizer=None, dtype=torch.float32, dtype_plan={}, disk_offload_folder=None,
            offload_buffers=False, weight_mapping=get_model_conversion_mapping(model))
        convert_and_load_state_dict_in_model(model, state, settings)
    found = {}
    for name, value in result.items():
        if id(value) not in recorder.origin:
            raise ExportError(f"Transformers makes the parameter {name} in a way that could not be followed")
        found[name] = recorder.origin[id(value)]
    return found


def sources(origin):
    """All checkpoint tensors that an origin reads."""
    if not isinstance(origin, Step):
        return [origin]
    return [tensor for part in origin.inputs for tensor in sources(part)]
