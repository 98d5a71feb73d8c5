"""The balancing loss of routers: what a mixture of experts adds to the loss of the tokens so that its experts share the
work, where the configuration asks for it (`output_router_logits`).

The graph gives it beside the logits, as `router_loss`. How much of it the model adds to its loss is found out by letting
the model add: its two losses are objects that note what is done with them.
"""
import contextlib
import functools
import inspect
from unittest import mock

from exporter.errors import ExportError
from exporter.model import parts_of

OUTPUT = "router_loss"
# In the graph file's metadata: what the loss of the tokens gets so many times of.
COEFFICIENT = "omnibal.router_loss_coefficient"
FUNCTION = "load_balancing_loss_func"
TAKES = ["gate_logits", "num_experts", "top_k", "attention_mask"]


def asked_for(model):
    return any(getattr(part, "output_router_logits", False) for part in parts_of(model.config))


def load_balancing_loss(gate_logits, num_experts=None, top_k=2, attention_mask=None):
    """Transformers' function in operations that have a form in ONNX. The number of rows is counted in the choices: each
    row makes `top_k` of them."""
    import torch
    counts, sums = [], []
    for logits in gate_logits:
        shares = torch.nn.functional.softmax(logits, dim=-1)
        chosen = torch.topk(shares, top_k, dim=-1).indices
        hits = (chosen[..., None] == torch.arange(num_experts, device=chosen.device)).to(torch.float32).sum(dim=1)
        shares = shares.float()
        if attention_mask is not None:
            rows = attention_mask.reshape(-1, 1).to(torch.float32)
            hits, shares = hits * rows, shares * rows
        counts.append(hits.sum(dim=0))
        sums.append(shares.sum(dim=0))
    counts, sums = functools.reduce(torch.add, counts), functools.reduce(torch.add, sums)
    rows = (counts.sum() / top_k).clamp(min=1)
    return ((counts / rows) * (sums / rows)).sum() * num_experts


class Share:
    """The balancing loss, or so many times of it."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def to(self, *arguments, **options):
        return self

    def __mul__(self, factor):
        return Share(self.factor * factor)
    __rmul__ = __mul__


class TokenLoss:
    """The loss of the tokens and what is added to it."""

    def __init__(self):
        self.device, self.dtype, self.coefficient = None, None, 0.0

    def __add__(self, other):
        if not isinstance(other, Share):
            raise ExportError(f"the model adds to its loss what is no balancing loss of routers (a {type(other).__name__}), "
                              "which is not supported; set output_router_logits to false to train without it")
        self.coefficient += float(other.factor)
        return self
    __radd__ = __iadd__ = __add__


class Added:
    """What a traced model adds to the loss of its tokens."""
    loss = None  # the traced value
    coefficient = 0.0

    def results(self, logits):
        return logits if self.loss is None or not self.coefficient else (logits, self.loss)


def check_form(function):
    if list(inspect.signature(function).parameters) != TAKES:
        raise ExportError(f"{function.__module__}.{FUNCTION} is another balancing loss than that of {', '.join(TAKES)}, "
                          "which is not supported; set output_router_logits to false to train without it")


@contextlib.contextmanager
def noted(model, modules):
    """Meanwhile the model's forward adds up its losses, and what it adds is in the result, an `Added`."""
    added = Added()
    if not asked_for(model):
        yield added
        return
    original, token_loss = type(model).forward, TokenLoss()

    def balancing(gate_logits, num_experts=None, top_k=2, attention_mask=None):
        if added.loss is not None:
            raise ExportError(f"{type(model).__name__}: two balancing losses of routers, which is not supported")
        added.loss = load_balancing_loss(gate_logits, num_experts, top_k, attention_mask)
        return Share()

    @functools.wraps(original)
    def forward(self, *arguments, **options):
        added.loss, token_loss.coefficient = None, 0.0
        result = original(self, *arguments, labels=options["input_ids"], **options)
        added.coefficient = token_loss.coefficient
        return result

    with contextlib.ExitStack() as stack:
        for module in modules:
            if hasattr(module, FUNCTION):
                stack.enter_context(mock.patch.object(module, FUNCTION, checked(getattr(module, FUNCTION), balancing)))
        stack.enter_context(mock.patch.object(type(model), "loss_function", lambda *_, **__: token_loss))
        stack.enter_context(mock.patch.object(type(model), "forward", forward))
        yield added


def checked(original, replacement):
    """The replacement, for a function of the form that it replaces."""
    def call(*arguments, **options):
        check_form(original)
        return replacement(*arguments, **options)
    return call
