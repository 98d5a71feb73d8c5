#!/usr/bin/env python3
"""Export a Hugging Face vision-language model as a forward graph for omnibal-compile.

    python export.py MODEL_FOLDER                       # writes MODEL_FOLDER/model.onnx beside the weights
    python export.py MODEL_FOLDER --out DIR             # the graph in DIR; the weights stay in MODEL_FOLDER
    python export.py config.json --out DIR --seed 1     # random weights, as Transformers saves them, and the graph
    python export.py config.json --out DIR --no-weights # the graph alone, of a model of any size: to plan and compile

The weights stay where and as they are: float32, bfloat16 or float16, one file or shards, a folder or a snapshot in the
Hugging Face cache. The graph holds none of them: each initializer is external data inside the checkpoint's own
safetensors file, so that names, shapes and the trained result stay those of the checkpoint. Of bfloat16 and float16
tensors the initializer says float32 (what the graph computes in) and the safetensors header tells the type of the
bytes. The model is traced without memory for its parameters.

Graph inputs: input_ids and attention_mask [batch, sequence], pixel_values [images, 3, H, W]; output: logits.
"""
import argparse
import json
import math
import os
import re
import shutil
import sys
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import logging
logging.disable(logging.WARNING)

from exporter import graph, model as models, tracing, verification
from exporter.constructs import dropouts
from exporter.pictures import probing
from exporter.weights import checkpoint, joining
from exporter.errors import ExportError

# Files beside the weights that the runtime or Transformers read.
COMPANIONS = re.compile(r"(config|generation_config|preprocessor_config|processor_config|tokenizer|tokenizer_config|"
                        r"special_tokens_map|added_tokens|vocab|chat_template)\.json|merges\.txt|vocab\.txt|"
                        r".*\.model|chat_template\.jinja")
# Float32 bytes of parameters up to which the result is checked against PyTorch unless --verify says otherwise: the
# check holds them twice.
VERIFIED_BYTES = 2 << 30


def write(proto, folder, name):
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with open(path + ".tmp", "wb") as file:
        file.write(proto.SerializeToString(deterministic=True))
    os.replace(path + ".tmp", path)
    return path


def describe(facts, folder):
    """omnibal.json: what export found out, for prepare.py and for people."""
    with open(os.path.join(folder, "omnibal.json"), "w", encoding="utf-8") as file:
        json.dump({**facts.description(), "per_token_inputs": list(facts.token_inputs())}, file, indent=1)
        file.write("\n")


def bytes_of(model):
    return 4 * sum(parameter.numel() for parameter in models.distinct_parameters(model).values())


class Report:
    """What was written where, and of what."""

    def __init__(self, path, proto, facts, tensors, used):
        self.path, self.proto, self.facts, self.tensors, self.used = path, proto, facts, tensors, used
        self.nodes = len(proto.graph.node)


def traced(model, opset, token=None, size=None, folder=None, dropout=True):
    """Facts of the model and its graph, in the first way that it can be traced."""
    problems = []
    for find in probing.candidates(model, token, size, folder):
        try:
            facts = find()
            facts.prefix = "token_type_ids" in facts.per_token and probing.sees_itself_both_ways(model)
            ir = tracing.trace(model, facts, opset, dropout)
            graph.mark_padding(ir, model)
            facts.unread = graph.drop_unused(ir, facts.per_token)
            return facts, ir
        except ExportError as problem:
            problems.append(str(problem))
    raise ExportError("; nor: ".join(dict.fromkeys(problems)))


def export_graph_alone(arguments):
    if not os.path.isfile(arguments.model) or not arguments.out:
        raise ExportError("--no-weights takes a configuration file and --out DIR")
    model = models.without_weights(models.read_config(arguments.model))
    facts, ir = traced(model, arguments.opset, arguments.image_token, arguments.image_size, dropout=not arguments.no_dropout)
    graph.drop_zero_biases(ir)
    graph.constants_as_nodes(ir, model)
    graph.point_at_nothing(ir, model)
    proto = graph.to_proto(ir, facts.axes())
    path = write(proto, arguments.out, arguments.name)
    describe(facts, arguments.out)
    model.config.save_pretrained(arguments.out)  # omnibal-compile reads there how pictures become patches
    print(f"{path}: opset {arguments.opset}, {len(ir.graph)} nodes, {bytes_of(model) // 4} parameters without values; "
          f"{facts}")
    if not arguments.no_dropout:
        tell_dropout(model, proto)


def tell_dropout(model, proto):
    if kept := dropouts.count(proto):
        print(f"dropout in {kept} places: omnibal-compile trains with it; runtimes that draw for it need --no-dropout")
    if others := dropouts.untrained(model.config):
        print("training drops nothing in attention and no whole layers, other than the configuration: " + ", ".join(others))


def export_model(source, target, opset=18, name="model.onnx", token=None, size=None, dropout=True):
    """Writes the graph of the model in `source` to `target` and says what it is. Returns a Report."""
    tensors = checkpoint.read_headers(source)
    model = models.without_weights(models.read_config(source))
    found = joining.match(model, source, tensors)
    joining.load_buffers(model, source, found)
    facts, ir = traced(model, opset, token, size, source, dropout)
    graph.drop_zero_biases(ir)
    graph.constants_as_nodes(ir, model, found)
    used = graph.point_into_checkpoint(ir, model, found, source)
    proto = graph.to_proto(ir, facts.axes())
    verification.check_form(proto)
    path = write(proto, target, name)
    describe(facts, target)
    kinds = sorted({tensors[name].dtype for name in used})
    print(f"{path}: opset {opset}, {len(proto.graph.node)} nodes, {len(used)} of {len(tensors)} tensors of the checkpoint "
          f"({', '.join(kinds)}) are used; {facts}")
    if dropout:
        tell_dropout(model, proto)
    return Report(path, proto, facts, tensors, used)


def source_folder(arguments):
    """The folder that holds the weights; made from a configuration where that is all there is."""
    if os.path.isdir(arguments.model):
        return arguments.model
    if not os.path.isfile(arguments.model):
        raise ExportError(f"{arguments.model}: neither a model folder nor a configuration file")
    if not arguments.out:
        raise ExportError("a configuration alone needs --out DIR for the weights that are made")
    os.makedirs(arguments.out, exist_ok=True)
    config = models.read_config(arguments.model)
    models.random_weights(config, arguments.seed, arguments.init_std).save_pretrained(arguments.out)
    return arguments.out


def copy_companions(source, target):
    for name in os.listdir(source):
        if COMPANIONS.fullmatch(name):
            shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


def verify(arguments, source, report):
    if arguments.no_verify:
        return
    size = 4 * sum(math.prod(report.tensors[name].shape) for name in report.used)
    if size > VERIFIED_BYTES and not arguments.verify:
        print(f"not verified: {size / 1e9:.0f} GB of float32 parameters; --verify does it in twice that memory")
        return
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        print("not verified: onnxruntime is not installed")
        return
    loaded = models.with_weights(source, models.read_config(source))
    difference = verification.largest_difference(report.proto, source, report.tensors, loaded, report.facts.checked())
    if not difference <= verification.TOLERANCE:
        raise ExportError(f"{report.path}: ONNX Runtime differs from PyTorch by {difference:.1e}")
    print(f"ONNX Runtime differs from PyTorch by {difference:.1e} at most")


def export_folder(arguments):
    source = source_folder(arguments)
    target = arguments.out or source
    report = export_model(source, target, arguments.opset, arguments.name, arguments.image_token, arguments.image_size,
                          not arguments.no_dropout)
    if os.path.realpath(target) != os.path.realpath(source):
        copy_companions(source, target)
        print(f"the weights stay in {source}: give --weights {source} to omnibal-compile and omnibal-run")
    verify(arguments, source, report)


def size_of(text):
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if not match:
        raise argparse.ArgumentTypeError("a size is SIDE or WIDTHxHEIGHT in pixels")
    return int(match[2] or match[1]), int(match[1])


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
    parser.add_argument("--image-token", type=int, help="id that marks pictures (default: found out)")
    parser.add_argument("--image-size", type=size_of, help="SIDE or WIDTHxHEIGHT of a picture (default: found out)")
    parser.add_argument("--no-dropout", action="store_true",
                        help="leave out dropout of hidden states, with which the graph is one for training")
    parser.add_argument("--no-verify", action="store_true", help="do not run the result in ONNX Runtime")
    parser.add_argument("--verify", action="store_true",
                        help="run it there whatever its size (default: up to 2 GiB of float32)")
    arguments = parser.parse_args()
    if not 18 <= arguments.opset <= 23:
        parser.error("--opset must be 18 to 23")
    try:
        (export_graph_alone if arguments.no_weights else export_folder)(arguments)
    except ExportError as error:
        sys.exit(f"export.py: {error}")


if __name__ == "__main__":
    main()
