"""Rewrites an ONNX model so that nothing but its meaning stays.

Strips all metadata, value_info and documentation, renames every node, value, graph input and
initializer, and permutes the nodes' order as far as their operands allow. External data stays where
it is: the result must lie in the source's folder.

    python scramble_model.py model.onnx scrambled.onnx --seed 1 [--keep-inputs]
"""
import argparse
import random

import onnx


def topological_shuffle(nodes, known, rng):
    """Any order in which operands come first."""
    waiting, ordered = list(nodes), []
    known = set(known) | {""}
    pending = {id(node): {name for name in node.input} - known for node in waiting}
    readers = {}
    for node in waiting:
        for name in pending[id(node)]:
            readers.setdefault(name, []).append(node)
    ready = [node for node in waiting if not pending[id(node)]]
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        ordered.append(node)
        for output in node.output:
            for reader in readers.pop(output, []):
                pending[id(reader)].discard(output)
                if not pending[id(reader)]:
                    ready.append(reader)
    if len(ordered) != len(waiting):
        raise ValueError("the graph has a cycle or reads values that nothing computes")
    return ordered


def scramble(model, seed, keep_inputs):
    rng = random.Random(seed)
    graph = model.graph
    if model.functions or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
                              for n in graph.node for a in n.attribute):
        raise ValueError("functions and subgraphs are not handled")
    del model.metadata_props[:]
    model.producer_name = model.producer_version = model.domain = model.doc_string = ""
    del graph.value_info[:]
    del graph.metadata_props[:]
    graph.doc_string, graph.name = "", "g"

    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    kept = set(outputs) | (set(inputs) if keep_inputs else set())
    names = inputs + [t.name for t in graph.initializer] + [o for n in graph.node for o in n.output if o]
    numbers = list(range(len(names)))
    rng.shuffle(numbers)
    renamed = {name: name if name in kept else f"v{number}" for name, number in zip(names, numbers)}
    renamed[""] = ""

    nodes = topological_shuffle(graph.node, inputs + [t.name for t in graph.initializer], rng)
    for number, node in enumerate(nodes):
        node.name, node.doc_string = f"n{number}", ""
        del node.metadata_props[:]
        node.input[:] = [renamed[name] for name in node.input]
        node.output[:] = [renamed[name] for name in node.output]
    tensors = list(graph.initializer)
    rng.shuffle(tensors)
    for tensor in tensors:
        tensor.name, tensor.doc_string = renamed[tensor.name], ""
    for value in list(graph.input) + list(graph.output):
        value.name, value.doc_string = renamed[value.name], ""
        del value.metadata_props[:]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in tensors]
    del graph.initializer[:]
    graph.initializer.extend(copies)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("result")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-inputs", action="store_true",
                        help="graph inputs keep their names (they are the batch's fields)")
    args = parser.parse_args()
    model = onnx.load(args.model, load_external_data=False)
    onnx.save(scramble(model, args.seed, args.keep_inputs), args.result)


if __name__ == "__main__":
    main()
