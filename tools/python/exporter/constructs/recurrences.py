"""Linear attention: a state of keys and values that every token changes, which no operator of ONNX's older opsets has.

Transformers computes the gated delta rule in chunks of the sequence. Traced, that is a loop over the chunks of the
traced length, and the chunks of a packed row would hold tokens of several samples. Meanwhile it is one node,
LinearAttention, which opset 27 has and runtimes have had in the domain com.microsoft before.
"""
import contextlib
from unittest import mock

RULE = "chunk_gated_delta_rule"  # what Transformers, flash-linear-attention and kernels for it call it


def normalized(x, epsilon=1e-6):
    import torch
    return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + epsilon)


def as_node(original):
    """The rule as one node, for queries, keys and values [batch, sequence, heads, size]."""
    def rule(query, key, value, g, beta, *arguments, initial_state=None, output_final_state=False,
             use_qk_l2norm_in_kernel=False, **options):
        import torch
        if arguments or initial_state is not None or output_final_state:
            return original(query, key, value, g, beta, *arguments, initial_state=initial_state,
                            output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                            **options)
        kind = query.dtype
        batch, length, heads, size = *value.shape[:3], query.shape[3]
        if key.shape[2] != heads:  # each head of keys serves several of values
            query, key = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (query, key))
        query, key, value, g, beta = (x.to(torch.float32) for x in (query, key, value, g, beta))
        if use_qk_l2norm_in_kernel:
            query, key = normalized(query), normalized(key)
        result, _ = torch.onnx.ops.symbolic_multi_out(
            "com.microsoft::LinearAttention", (query.flatten(2), key.flatten(2), value.flatten(2), None, g, beta),
            attrs={"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "gated_delta", "scale": size ** -0.5},
            dtypes=(value.dtype, value.dtype),
            shapes=((batch, length, heads * value.shape[3]), (batch, heads, size, value.shape[3])), version=1)
        return result.reshape(batch, length, heads, value.shape[3]).to(kind), None
    return rule


@contextlib.contextmanager
def as_nodes(modules):
    """Meanwhile the rule is one node in these modules of models."""
    with contextlib.ExitStack() as stack:
        for module in modules:
            for name, value in list(vars(module).items()):
                if name.endswith(RULE) and callable(value):
                    stack.enter_context(mock.patch.object(module, name, as_node(value)))
        yield
