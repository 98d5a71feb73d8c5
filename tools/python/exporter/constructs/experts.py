"""Mixtures of experts: which of Transformers' implementations a model is traced with.

The grouped products that Transformers uses by default have no form in ONNX, and its loop over the experts depends on
data. `batched_mm` computes the same by looking up each row's matrix: matrices[experts of the rows] times the rows. The
compiler sorts the rows by expert again and makes one product for each expert.
"""
import contextlib
import inspect
from unittest import mock

TRACEABLE = "batched_mm"


def is_loop(module):
    """Whether a module holds experts as Transformers does, yet knows no implementation but a loop of its own."""
    held = [getattr(module, name, None) for name in ("gate_up_proj", "down_proj")]
    return (all(getattr(tensor, "ndim", 0) == 3 for tensor in held) and not hasattr(module, "has_gate") and
            list(inspect.signature(type(module).forward).parameters)[1:] == ["hidden_states", "top_k_index", "top_k_weights"])


@contextlib.contextmanager
def without_loops(model):
    """Such modules meanwhile run by `batched_mm`; the gate is theirs."""
    from transformers.integrations import moe
    with contextlib.ExitStack() as stack:
        for module in filter(is_loop, model.modules()):
            settings = dict(has_gate=True, has_bias=hasattr(module, "gate_up_proj_bias"), has_post_expert_norm=False,
                            is_concatenated=True, is_transposed=module.gate_up_proj.shape[1] == module.down_proj.shape[2],
                            _is_expert_parallel=False)
            settings["forward"] = moe.ALL_EXPERTS_FUNCTIONS[TRACEABLE].__get__(module)
            if not hasattr(module, "_apply_gate"):
                settings["_apply_gate"] = moe._default_apply_gate.__get__(module)
            for name, value in settings.items():
                stack.enter_context(mock.patch.object(module, name, value, create=True))
        yield


@contextlib.contextmanager
def traceable(model):
    """Meanwhile the model's experts run by `batched_mm`, where it has experts."""
    with without_loops(model), with_implementation(model):
        yield


@contextlib.contextmanager
def with_implementation(model):
    """Meanwhile experts that know several implementations run by `batched_mm`."""
    current = getattr(model, "get_experts_implementation", dict)()
    if not any(current.values()):
        yield
        return
    model.set_experts_implementation(TRACEABLE)
    try:
        yield
    finally:
        model.set_experts_implementation(current)
