"""PyTorch model to ONNX graph, with what has no form in ONNX replaced meanwhile."""
import contextlib
import inspect
import re
import sys
import types


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


@contextlib.contextmanager
def without_unrolling():
    """LLaVA turns the features into a list of images and joins it again, which fixes their number while tracing. A
    list of one tensor with all rows is the same value and leaves the number free."""
    import torch
    changed = []
    for name, module in list(sys.modules.items()):
        if re.fullmatch(r"transformers\.models\.\w*llava\w*\.modeling_\w+", name) and "list" not in vars(module):
            module.list = lambda x=(): [x.flatten(0, 1)[None]] if isinstance(x, torch.Tensor) else list(x)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.list


@contextlib.contextmanager
def flat_forward(model, names):
    """Gives the model a flat signature and logits as its only result; the module tree, hence every name, stays."""
    original = type(model).forward

    def forward(self, **inputs):
        return original(self, **inputs, use_cache=False, return_dict=True).logits
    bound = types.MethodType(forward, model)
    function = lambda **inputs: bound(**inputs)
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    model.forward = function
    try:
        yield
    finally:
        del model.forward


def trace(model, inputs, axes, opset):
    """The graph, with initialisers that are the model's parameters. Exported with optimize=False: the exporter's own
    optimiser merges equal parameters and folds transposes, which makes a graph unfit for training."""
    import torch
    shapes = {n: {a: torch.export.Dim.DYNAMIC for a in range(len(axes[n]))} for n in inputs}
    with torch.no_grad(), without_runtime_checks(), without_unrolling(), flat_forward(model, list(inputs)):
        return torch.onnx.export(model, (), kwargs=inputs, dynamo=True, dynamic_shapes=shapes, opset_version=opset,
                                 optimize=False, output_names=["logits"], verbose=False).model
