#!/usr/bin/env python3
"""Export a Hugging Face vision-language model as a forward graph for omnibal-compile.

    python export.py MODEL_FOLDER                       # writes MODEL_FOLDER/model.onnx beside the weights
    python export.py MODEL_FOLDER --out DIR             # float32 copy of the weights, configuration, and the graph
    python export.py config.json --out DIR --seed 1     # random weights
    python export.py config.json --out DIR --no-weights # the graph alone, of a model of any size: to plan and compile

The graph holds no weights: each initialiser is external data inside the checkpoint's own safetensors file, so that
names, shapes and the trained result stay those of the checkpoint. Graph inputs: input_ids and attention_mask
[batch, sequence], pixel_values [images, 3, H, W]; output: logits. Exported with optimize=False: the exporter's own
optimiser merges equal parameters and folds transposes, which makes a graph unfit for training.
"""
import argparse
import contextlib
import inspect
import json
import os
import re
import shutil
import sys
import types
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import logging
logging.disable(logging.WARNING)

import checkpoint

# Files beside the weights that the runtime or Transformers read.
COMPANIONS = re.compile(r"(config|generation_config|preprocessor_config|processor_config|tokenizer|tokenizer_config|"
                        r"special_tokens_map|added_tokens|vocab|chat_template)\.json|merges\.txt|vocab\.txt|"
                        r".*\.model|chat_template\.jinja")


def fail(message):
    raise SystemExit(f"export.py: {message}")


# ------------------------------------------------------------------------------------------------------- the model
def model_from_config(path, seed, init_std):
    """A model of that configuration with random weights in float32."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(path)
    if init_std is not None:
        for part in (config, *(getattr(config, p, None) for p in ("vision_config", "text_config"))):
            if part is not None:
                part.initializer_range = init_std
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32)


@contextlib.contextmanager
def parameters_without_memory():
    """Models built meanwhile have parameters of their shapes that are one zero in memory. Buffers keep their values."""
    import torch

    class SkipInitialisation(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            kwargs = kwargs or {}
            target = args[0] if args else kwargs.get("tensor")  # torch.nn.init passes it by name
            if name.endswith("_") and not name.endswith("__") and isinstance(target, torch.nn.Parameter):
                return target
            return function(*args, **kwargs)

    original = torch.nn.Module.register_parameter

    def register(module, name, parameter):
        if parameter is not None and parameter.dim():
            zero = torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)
            parameter = torch.nn.Parameter(zero, requires_grad=parameter.requires_grad)
        original(module, name, parameter)

    torch.nn.Module.register_parameter = register
    try:
        with SkipInitialisation():
            yield
    finally:
        torch.nn.Module.register_parameter = original


def model_from_folder(path):
    import torch
    from transformers import AutoModelForImageTextToText
    return AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32)


def distinct_parameters(model):
    """Parameters without repetitions: {name: tensor}."""
    return dict(model.named_parameters(remove_duplicate=True))


def tied_names(model):
    """{every name of a parameter: the name under which distinct_parameters has it}."""
    first = {id(p): n for n, p in model.named_parameters(remove_duplicate=True)}
    return {n: first[id(p)] for n, p in model.named_parameters(remove_duplicate=False)}


# ------------------------------------------------------------------------------------------------------- tracing
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


def image_facts(model):
    """Image token, tokens per tile, tile size."""
    config = model.config
    token = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
    count = getattr(config, "image_seq_length", None)
    size = getattr(config.vision_config, "image_size", None)
    if token is None or count is None or size is None:
        fail(f"{type(model).__name__}: the configuration names no image token, tokens per image and tile size; only "
             "models whose images are tiles of one size are supported")
    height, width = (size, size) if isinstance(size, int) else size
    return token, count, height, width


def example_inputs(model):
    """Two rows with two images and one, of a length that no other dimension has."""
    import torch
    token, count, height, width = image_facts(model)
    length = 2 * count + 11
    other = 1 if token != 1 else 2
    ids = torch.full((2, length), other)
    ids[0, 1:1 + 2 * count] = token
    ids[1, 1:1 + count] = token
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    return dict(input_ids=ids, attention_mask=mask,
                pixel_values=torch.randn(3, 3, height, width, generator=generator))


AXES = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence"), "pixel_values": ("images",)}


def trace(model, opset):
    import torch
    inputs = example_inputs(model)
    shapes = {n: {a: torch.export.Dim.DYNAMIC for a in range(len(AXES[n]))} for n in inputs}
    with torch.no_grad(), without_runtime_checks(), without_unrolling(), flat_forward(model, list(inputs)):
        return torch.onnx.export(model, (), kwargs=inputs, dynamo=True, dynamic_shapes=shapes, opset_version=opset,
                                 optimize=False, output_names=["logits"], verbose=False).model


# ------------------------------------------------------------------------------------------------------- the file
def point_into_checkpoint(ir, model, found, folder):
    """Replaces every parameter by external data inside the checkpoint."""
    import onnx_ir
    tied = tied_names(model)
    used = set()
    for name, value in ir.graph.initializers.items():
        if name not in tied:
            continue  # a buffer such as inv_freq: stays inline
        tensor = found[tied[name]]
        used.add(tensor.name)
        value.const_value = onnx_ir.ExternalTensor(
            tensor.file, tensor.offset, tensor.length, onnx_ir.DataType.FLOAT, name=name,
            shape=onnx_ir.Shape(tensor.shape), base_dir=folder)
    return used


def point_at_nothing(ir, model):
    """Replaces every parameter by external data of its own name that is not there: `--no-weights`."""
    import onnx_ir
    tied = tied_names(model)
    offset = 0
    for name, value in ir.graph.initializers.items():
        if name in tied:
            length = 4 * value.const_value.size
            value.const_value = onnx_ir.ExternalTensor("model.safetensors", offset, length, onnx_ir.DataType.FLOAT,
                                                       name=name, shape=value.const_value.shape, base_dir="")
            offset += length


def export_graph_alone(arguments):
    if not os.path.isfile(arguments.model) or not arguments.out:
        fail("--no-weights takes a configuration file and --out DIR")
    with parameters_without_memory():
        model = model_from_config(arguments.model, arguments.seed, arguments.init_std)
    model.eval()
    ir = trace(model, arguments.opset)
    point_at_nothing(ir, model)
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, arguments.name)
    with open(path, "wb") as file:
        file.write(to_proto(ir).SerializeToString(deterministic=True))
    token, count, height, width = image_facts(model)
    parameters = sum(parameter.numel() for parameter in distinct_parameters(model).values())
    print(f"{path}: opset {arguments.opset}, {len(ir.graph)} nodes, {parameters} parameters without values; image token "
          f"{token}, {count} tokens a tile of {width} x {height}")


def to_proto(ir):
    """The file's contents: of the metadata only the module paths are kept, and dimensions get readable names."""
    import onnx_ir
    proto = onnx_ir.serde.serialize_model(ir)
    for node in proto.graph.node:
        keep = [(p.key, p.value) for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        for key, value in keep:
            node.metadata_props.add(key=key, value=value)
    names = {}
    for value in proto.graph.input:
        for axis, name in enumerate(AXES.get(value.name, ())):
            dim = value.type.tensor_type.shape.dim[axis]
            if not dim.HasField("dim_param"):
                fail(f"tracing fixed the dimension {axis} ({name}) of {value.name} to {dim.dim_value}; this model's "
                     "code depends on it and needs a patch here")
            names.setdefault(dim.dim_param, name)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    for value in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = pattern.sub(lambda m: names[m.group(1)], dim.dim_param)
    return proto


def verify(path, model):
    """Largest difference between ONNX Runtime on the written file and PyTorch."""
    try:
        import onnxruntime
    except ImportError:
        return None
    import torch
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = example_inputs(model)
    with torch.no_grad():
        wanted = model(**inputs, use_cache=False).logits
    got = torch.from_numpy(session.run(["logits"], {k: v.numpy() for k, v in inputs.items()})[0])
    keep = inputs["attention_mask"].bool()
    return float((wanted - got)[keep].abs().max())


# ------------------------------------------------------------------------------------------------------- folders
def write_float32_copy(source, target, tensors):
    """The checkpoint in float32 under the same names, in one file."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
    handles = {t.file: safe_open(os.path.join(source, t.file), "pt") for t in tensors.values()}
    state = {}
    for name, tensor in tensors.items():
        value = handles[tensor.file].get_tensor(name)
        state[name] = value.float() if value.is_floating_point() else value
    save_file(state, os.path.join(target, "model.safetensors"), metadata={"format": "pt"})
    for name in os.listdir(source):
        if COMPANIONS.fullmatch(name):
            shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


def prepare_folder(arguments):
    """Returns the folder that holds float32 weights and shall hold the graph, and the model."""
    source = arguments.model
    if os.path.isfile(source):
        if not arguments.out:
            fail("a configuration alone needs --out DIR for the weights that are made")
        model = model_from_config(source, arguments.seed, arguments.init_std)
        os.makedirs(arguments.out, exist_ok=True)
        model.save_pretrained(arguments.out)
        # save_pretrained's form is what a user has; read it back as a user would
        return arguments.out, model_from_folder(arguments.out)
    if not os.path.isdir(source):
        fail(f"{source}: neither a model folder nor a configuration file")
    tensors = checkpoint.read_headers(source)
    if arguments.out and os.path.abspath(arguments.out) != os.path.abspath(source):
        os.makedirs(arguments.out, exist_ok=True)
        write_float32_copy(source, arguments.out, tensors)
        return arguments.out, model_from_folder(arguments.out)
    other = sorted({t.dtype for t in tensors.values() if t.dtype in ("F16", "BF16", "F64")})
    if other:
        fail(f"{source}: the weights are {', '.join(other)}, the graph needs float32; give --out DIR for a float32 "
             "copy")
    return source, model_from_folder(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face model folder, or a config.json for random weights")
    parser.add_argument("--out", help="folder to write to (default: the model folder)")
    parser.add_argument("--opset", type=int, default=18, help="18 to 23 (default 18)")
    parser.add_argument("--name", default="model.onnx", help="name of the graph file (default model.onnx)")
    parser.add_argument("--seed", type=int, default=0, help="of random weights")
    parser.add_argument("--init-std", type=float, help="deviation of random weights (default: the configuration's)")
    parser.add_argument("--no-weights", action="store_true",
                        help="write the graph of a configuration alone; parameters have names and shapes, no values")
    parser.add_argument("--no-verify", action="store_true", help="do not run the result in ONNX Runtime")
    arguments = parser.parse_args()
    if not 18 <= arguments.opset <= 23:
        parser.error("--opset must be 18 to 23")

    if arguments.no_weights:
        return export_graph_alone(arguments)
    import onnx
    folder, model = prepare_folder(arguments)
    model.eval()
    tensors = checkpoint.read_headers(folder)
    found = checkpoint.match(folder, tensors, distinct_parameters(model))
    ir = trace(model, arguments.opset)
    used = point_into_checkpoint(ir, model, found, folder)
    path = os.path.join(folder, arguments.name)
    with open(path, "wb") as file:
        file.write(to_proto(ir).SerializeToString(deterministic=True))
    onnx.checker.check_model(path)
    token, count, height, width = image_facts(model)
    print(f"{path}: opset {arguments.opset}, {len(ir.graph)} nodes, {len(used)} of {len(tensors)} tensors of the "
          f"checkpoint are used; image token {token}, {count} tokens a tile of {width} x {height}")
    if not arguments.no_verify:
        difference = verify(path, model)
        if difference is None:
            print("not verified: onnxruntime is not installed")
        elif difference > 1e-3:
            fail(f"{path}: ONNX Runtime differs from PyTorch by {difference:.1e}")
        else:
            print(f"ONNX Runtime differs from PyTorch by {difference:.1e} at most")


if __name__ == "__main__":
    main()
