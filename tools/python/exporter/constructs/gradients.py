"""What PyTorch gives no gradient, in a graph that knows values alone.

ONNX has no operator for it. Rounding down has gradient zero, in omnibal-compile as in PyTorch, and of a number so large
that it is whole it changes nothing: floor(x * 2^64) / 2^64 is x, for 2^-40 <= |x| < 2^63 to the last bit, for smaller
numbers up to 2^-64.
"""
SCALE = 2.0 ** 64


def held(graph, value, like):
    """Nodes that compute `value` again without its gradient."""
    import torch
    aten = torch.ops.aten
    for operator, arguments in ((aten.mul.Tensor, (SCALE,)), (aten.floor.default, ()), (aten.mul.Tensor, (1 / SCALE,))):
        value = graph.call_function(operator, (value, *arguments))
        value.meta = dict(like.meta)
    return value


def depends_on(node, sources):
    """Whether a node is computed from one of the sources."""
    todo, seen = [node], set()
    while todo:
        node = todo.pop()
        if node.name in sources:
            return True
        if node not in seen:
            seen.add(node)
            todo += node.all_input_nodes
    return False


def with_detached_held(program):
    """`detach()` of what parameters are in."""
    import torch
    graph = program.graph
    parameters = set(program.graph_signature.inputs_to_parameters)
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.detach.default and node.meta["val"].is_floating_point() and depends_on(node, parameters):
            with graph.inserting_before(node.next):
                value = held(graph, node.args[0], node)
            node.replace_all_uses_with(value)
            graph.erase_node(node)
    return program
