"""Dropout, which a model in evaluation mode leaves out: as nodes with the model's own ratios, that omnibal-compile trains with."""
import contextlib
import re
from unittest import mock

from exporter.model import parts_of

# What a configuration calls dropout that is no dropout of hidden states: of probabilities in attention, and of whole layers.
OTHERS = re.compile(r".*att(e)?n.*(drop|pdrop).*|.*drop_path.*|.*layer_?drop|.*stochastic_depth.*")


def operator():
    """Dropout in training as an operator, which computes what evaluation computes."""
    import torch
    if hasattr(torch.ops.omnibal, "dropout"):
        return torch.ops.omnibal.dropout

    @torch.library.custom_op("omnibal::dropout", mutates_args=())
    def dropout(values: torch.Tensor, ratio: float) -> torch.Tensor:
        return values.clone()

    @dropout.register_fake
    def _(values, ratio):
        return torch.empty_like(values)

    @dropout.register_vmap
    def _(info, dims, values, ratio):
        return torch.ops.omnibal.dropout(values, ratio), dims[0]
    return torch.ops.omnibal.dropout


@contextlib.contextmanager
def kept():
    """Meanwhile dropout is a node wherever a model has it, whatever mode the model is in."""
    import torch
    node, original = operator(), torch.nn.functional.dropout

    def dropout(input, p=0.5, training=True, inplace=False):
        return node(input, float(p)) if p > 0 else original(input, p, training, inplace)
    with mock.patch.object(torch.nn.functional, "dropout", dropout):
        yield


def translations(operators):
    return {operator().default: lambda values, ratio: operators.Dropout(values, ratio, True)[0]}


def in_evaluation(proto):
    """A copy in which dropout is the identity."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for node in copy.graph.node:
        if node.op_type == "Dropout":
            del node.input[1:]
    return copy


def count(proto):
    return sum(node.op_type == "Dropout" and len(node.input) > 2 for node in proto.graph.node)


def untrained(config):
    """What the configuration would drop beside hidden states, as text: ["attention_dropout 0.1 of ..Config"]."""
    return [f"{name} {value} of {type(part).__name__}" for part in parts_of(config) for name, value in vars(part).items()
            if OTHERS.fullmatch(name) and type(value) in (int, float) and value > 0]
