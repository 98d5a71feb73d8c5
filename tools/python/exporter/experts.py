"""Mixtures of experts: which of Transformers' implementations a model is traced with.

The grouped products that Transformers uses by default have no form in ONNX, and its loop over the experts depends on
data. `batched_mm` computes the same by looking up each row's matrix: matrices[experts of the rows] times the rows. The
compiler sorts the rows by expert again and makes one product for each expert.
"""
import contextlib

from exporter.errors import ExportError
from exporter.model import parts_of

TRACEABLE = "batched_mm"


def refuse_balancing_loss(model):
    """A loss beside that of the tokens would be lost: the graph's result is the logits alone."""
    for part in parts_of(model.config):
        if getattr(part, "output_router_logits", False):
            raise ExportError(f"{type(model).__name__}: the configuration adds the routers' balancing loss "
                              "(output_router_logits), which is not supported; set it to false to train without it")


@contextlib.contextmanager
def traceable(model):
    """Meanwhile the model's experts run by `batched_mm`, where it has experts."""
    current = getattr(model, "get_experts_implementation", dict)()
    if not any(current.values()):
        yield
        return
    refuse_balancing_loss(model)
    model.set_experts_implementation(TRACEABLE)
    try:
        yield
    finally:
        model.set_experts_implementation(current)
