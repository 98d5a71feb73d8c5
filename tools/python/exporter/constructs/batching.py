"""Operations on one picture as operations on all: what torch.vmap needs beside its own rules, which know only numbers
of pictures that are fixed, or take attention asunder."""
import contextlib
import warnings
from typing import Optional
from unittest import mock


def front(tensor, dim):
    """With the pictures' dimension in front."""
    return tensor if dim == 0 else tensor.movedim(dim, 0)


def spread(tensor, dim, count):
    """The same of a tensor that may be that of every picture."""
    return tensor.unsqueeze(0).expand(count, *tensor.shape) if dim is None else front(tensor, dim)


def cat(info, dims, tensors, dim=0):
    import torch
    parts = [spread(tensor, place, info.batch_size) for tensor, place in zip(tensors, dims[0])]
    return torch.cat(parts, dim % (parts[0].dim() - 1) + 1), 0


def stack(info, dims, tensors, dim=0):
    import torch
    parts = [spread(tensor, place, info.batch_size) for tensor, place in zip(tensors, dims[0])]
    return torch.stack(parts, dim % parts[0].dim() + 1), 0


def convolution(info, dims, values, weight, bias, *settings):
    import torch
    if dims[1] is not None or dims[0] is None:
        raise NotImplementedError("a convolution with weights that depend on the picture")
    values = front(values, dims[0])
    result = torch.ops.aten.convolution.default(values.flatten(0, 1), weight, bias, *settings)
    return result.unflatten(0, values.shape[:2]), 0


def layer_norm(info, dims, values, shape, *settings):
    import torch
    if any(dim is not None for dim in dims[2:]) or dims[0] is None:
        raise NotImplementedError("a norm with weights that depend on the picture")
    return torch.layer_norm(front(values, dims[0]), shape, *settings), 0


def index_select(info, dims, values, dim, index):
    import torch
    if dims[2] is not None:
        raise NotImplementedError("rows chosen by the picture")
    values = front(values, dims[0])
    return torch.index_select(values, dim % (values.dim() - 1) + 1, index), 0


def over_first(name):
    """The rule of an operator whose first argument has a first dimension of independent parts."""
    def rule(info, dims, values, *settings):
        import torch
        namespace, operator = name.split("::")
        values = front(values, dims[0])
        result = getattr(getattr(torch.ops, namespace), operator)(values.flatten(0, 1), *settings)
        return result.unflatten(0, values.shape[:2]), 0
    return rule


RULES = {"aten::cat": cat, "aten::stack": stack, "aten::convolution": convolution, "aten::layer_norm": layer_norm,
         "aten::index_select": index_select}
RULES.update({name: over_first(name) for name in
              ("aten::im2col", "aten::avg_pool2d", "aten::adaptive_avg_pool2d", "aten::max_pool2d", "aten::pixel_shuffle",
               "aten::pixel_unshuffle", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::upsample_nearest2d")})


def attention():
    """An operator for attention, whose form for many pictures is one call too."""
    import torch
    if hasattr(torch.ops.omnibal, "attend"):
        return torch.ops.omnibal.attend

    @torch.library.custom_op("omnibal::attend", mutates_args=())
    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Optional[torch.Tensor], causal: bool,
               scale: Optional[float], grouped: bool) -> torch.Tensor:
        return torch.ops.aten.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped)

    @attend.register_fake
    def _(query, key, value, mask, causal, scale, grouped):
        return query.new_empty((*query.shape[:-1], value.shape[-1]))

    @attend.register_vmap
    def _(info, dims, query, key, value, mask, causal, scale, grouped):
        parts = [spread(tensor, dim, info.batch_size) for tensor, dim in zip((query, key, value), dims)]
        inner = parts[0].shape[:2]
        if mask is not None and (dims[3] is not None or mask.dim() == 4 and mask.shape[0] != 1):
            mask = spread(mask, dims[3], info.batch_size).flatten(0, 1)
        result = torch.ops.omnibal.attend(*(part.flatten(0, 1) for part in parts), mask, causal, scale, grouped)
        return result.unflatten(0, inner), 0
    return torch.ops.omnibal.attend


def embedding_bag(original):
    """Bags of equal size as rows, weights and a sum, which have a form in ONNX."""
    def bag(input, weight, offsets=None, mode="mean", per_sample_weights=None, **options):
        if offsets is not None or mode != "sum" or input.dim() != 2:
            return original(input, weight, offsets=offsets, mode=mode, per_sample_weights=per_sample_weights, **options)
        rows = weight[input]
        return (rows if per_sample_weights is None else rows * per_sample_weights[..., None]).sum(1)
    return bag


@contextlib.contextmanager
def rules():
    """While a function of one picture is done for all."""
    import torch
    operator = attention()

    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        return operator(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    functional = torch.nn.functional
    with mock.patch.object(functional, "embedding_bag", embedding_bag(functional.embedding_bag)), \
            torch.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the rules that are replaced
        for name, rule in RULES.items():
            torch.library.register_vmap(name, rule, lib=library)
        with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", attend):
            yield


def plain(program):
    """The program with what is done for every picture written out, and PyTorch's own operator for attention."""
    import torch
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # of one picture
            program.graph.erase_node(node)
    with rules():
        program = program.run_decompositions({})
    attend = attention().default
    for node in list(program.graph.nodes):
        if node.target is torch.ops.prims.view_of.default:
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)
        if node.target is attend:
            query, key, value, mask, causal, scale, grouped = node.args
            node.target = torch.ops.aten.scaled_dot_product_attention.default
            node.args, node.kwargs = (query, key, value, mask, 0.0, causal), {"scale": scale, "enable_gqa": grouped}
    return program
