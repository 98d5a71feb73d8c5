"""Operators of a traced program in place of others that compute the same: what ONNX has no form for, and what several
models write in several ways."""


def with_complex_unsqueezed(program):
    """A new dimension of complex numbers has no form of its own in ONNX; a stack of one tensor has one."""
    import torch
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.unsqueeze.default and node.meta["val"].is_complex():
            node.target, node.args = torch.ops.aten.stack.default, ([node.args[0]], node.args[1])
    return program


def with_single_buckets_zero(program):
    """Numbers put into buckets without boundaries: whole zeros. PyTorch's own decomposition makes zeros of the numbers' type."""
    import torch
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.bucketize.Tensor and node.args[1].meta["val"].numel() == 0:
            dtype = node.meta["val"].dtype
            node.target, node.args, node.kwargs = torch.ops.aten.zeros_like.default, (node.args[0],), {"dtype": dtype}
    return program


# Operators that leave a mask the mask it is, in another shape.
RESHAPING = ("alias", "clone", "expand", "lift_fresh_copy", "squeeze", "to", "unsqueeze", "view", "_to_copy", "reshape", "_unsafe_view")


def root_of(node):
    """What is merely reshaped in the end."""
    while getattr(node.target, "_opname", "") in RESHAPING:
        node = node.args[0]
    return node


def with_sums_put(program):
    """`values.masked_scatter(mask, (values[mask] + rows).view(-1))`: as rows put where the mask is, as other models write
    the same sum."""
    import torch
    aten = torch.ops.aten
    for node in list(program.graph.nodes):
        if node.target is not aten.masked_scatter.default:
            continue
        values, mask, total = node.args[0], node.args[1], root_of(node.args[2])
        chosen = [part for part in total.all_input_nodes if part.target is aten.index.Tensor]
        if total.target is not aten.add.Tensor or not chosen or len(chosen[0].args[1]) != 1:
            continue
        place = chosen[0].args[1][0]
        if root_of(place) is root_of(mask) and place.meta["val"].dim() + 1 == values.meta["val"].dim() == total.meta["val"].dim() + 1:
            with program.graph.inserting_before(node):
                put = program.graph.call_function(aten.index_put.default, (values, [place], total))
            put.meta = dict(node.meta)
            node.replace_all_uses_with(put)
            program.graph.erase_node(node)
    return program


def number_written(program, node):
    """The number that a node writes into all of a part of a tensor, or None."""
    import torch
    if node.target is torch.ops.aten.fill_.Scalar:
        return node.args[1]
    if node.target not in (torch.ops.aten.fill_.Tensor, torch.ops.aten.copy_.default):
        return None
    source = root_of(node.args[1])
    constant = program.constants.get(program.graph_signature.inputs_to_lifted_tensor_constants.get(source.name))
    return constant.item() if constant is not None and constant.numel() == 1 else None


def with_shifts_padded(program):
    """`torch.roll` by one place whose first place is then written over: padding in front, without the last place."""
    import torch
    aten, graph = torch.ops.aten, program.graph
    for node in [n for n in graph.nodes if n.target is aten.roll.default and n.args[1] == [1] and len(n.args) > 2 and len(n.args[2]) == 1]:
        values, rank = node.args[0], node.meta["val"].dim()
        dim = node.args[2][0] % rank
        order = {user: place for place, user in enumerate(graph.nodes)}
        users = sorted(node.users, key=order.get)
        first = users[0]
        if first.target is not aten.select.int or first.args[1] % rank != dim or first.args[2] != 0 or len(first.users) != 1:
            continue
        write = next(iter(first.users))
        number = number_written(program, write)
        if number is None or write.users or any(order[user] < order[write] for user in users[1:]):
            continue
        width = [0, 0] * (rank - 1 - dim) + [1, 0]
        with graph.inserting_before(node):
            padded = graph.call_function(aten.pad.default, (values, width, "constant", float(number)))
            padded.meta = {"val": torch.nn.functional.pad(values.meta["val"], width, value=number)}
            shifted = graph.call_function(aten.slice.Tensor, (padded, dim, 0, -1))
            shifted.meta = dict(node.meta)
        for erased in (write, first):
            graph.erase_node(erased)
        node.replace_all_uses_with(shifted)
        graph.erase_node(node)
    return program
