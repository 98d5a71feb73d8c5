"""Writes interpreter.json: cases of InterpreterTest.cpp, expected values from PyTorch in float64.

    python3 test/unit/dialects/omnibal/make_interpreter_cases.py

Each case: a name, a function in the dialect's text, its inputs, the values of its results. Only its output
is used by the build; PyTorch is needed to run this script, not to build or test.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "test" / "scripts"))
from random_bits import uniform  # noqa: E402

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)
cases = []


def mlir_type(t):
    kind = {torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "i1"}[t.dtype]
    return "tensor<" + "".join(f"{d}x" for d in t.shape) + kind + ">"


def plain(t):
    values = t.to(torch.float64) if t.dtype == torch.bool else t
    return {"shape": list(t.shape), "values": [str(v) for v in values.flatten().tolist()]}


def case(name, op, inputs, expected, attrs="", constants=()):
    """One op on `inputs` (then `constants`, e.g. a shape operand) giving `expected` (a tensor or tuple)."""
    if torch.is_tensor(expected):
        expected = (expected,)
    args = ", ".join(f"%a{i}: {mlir_type(t)}" for i, t in enumerate(inputs))
    lines = []
    operands = [f"%a{i}" for i in range(len(inputs))]
    types = [mlir_type(t) for t in inputs]
    for i, (text, tensor_type) in enumerate(constants):
        lines.append(f"%c{i} = omnibal.constant dense<{text}> : {tensor_type}")
        operands.append(f"%c{i}")
        types.append(tensor_type)
    results = [mlir_type(t) for t in expected]
    many = f":{len(results)}" if len(results) > 1 else ""
    result_type = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
    lines.append(f"%r{many} = omnibal.{op} {', '.join(operands)} {attrs} : ({', '.join(types)}) -> {result_type}")
    values = ", ".join(f"%r#{i}" for i in range(len(results))) if many else "%r"
    lines.append(f"return {values} : {', '.join(results)}")
    body = "\n  ".join(lines)
    text = f"func.func @main({args}) -> ({', '.join(results)}) {{\n  {body}\n}}"
    cases.append({"name": name, "function": text, "inputs": [plain(t) for t in inputs],
                  "results": [plain(t) for t in expected]})


x, pos = torch.randn(2, 3), torch.rand(2, 3) + 0.2
unary = {"neg": torch.neg, "exp": torch.exp, "erf": torch.erf, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
         "cos": torch.cos, "sin": torch.sin, "abs": torch.abs, "floor": torch.floor, "sign": torch.sign,
         "relu": torch.relu, "silu": F.silu, "quick_gelu": lambda v: v * torch.sigmoid(1.702 * v), "gelu": F.gelu,
         "is_nan": torch.isnan}
for name, rule in unary.items():
    case(name, name, [x], rule(x))
for name, rule in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal}.items():
    case(name, name, [pos], rule(pos))
case("gelu_tanh", "gelu", [x], F.gelu(x, approximate="tanh"), "{tanh}")
case("is_nan_true", "is_nan", [torch.tensor([1.0, float("nan")])], torch.tensor([False, True]))


def derivative(rule, v, dy):
    v = v.clone().requires_grad_()
    return torch.autograd.grad(rule(v), v, dy)[0]


dy = torch.randn(2, 3)
case("silu_grad", "silu_grad", [x, dy], derivative(F.silu, x, dy))
keys, columns = torch.tensor([[1], [-7], [2 ** 31 - 1]], dtype=torch.int32), torch.arange(5, dtype=torch.int32)
case("random_uniform", "random_uniform", [keys, columns, torch.tensor(3, dtype=torch.int32)],
     torch.tensor(uniform(keys[:, 0].numpy().view("uint32"), 5, 3, 2)), attrs="{stream = 2 : i32}")
case("quick_gelu_grad", "quick_gelu_grad", [x, dy], derivative(unary["quick_gelu"], x, dy))
case("gelu_grad", "gelu_grad", [x, dy], derivative(F.gelu, x, dy))
case("gelu_tanh_grad", "gelu_grad", [x, dy], derivative(lambda v: F.gelu(v, approximate="tanh"), x, dy), "{tanh}")

row, column = torch.randn(3), torch.randn(4, 1, 1)
for name, rule in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
                   "min": torch.minimum}.items():
    case(name, name, [x, column], rule(x, column))
case("pow", "pow", [pos, row], torch.pow(pos, row))
i, j = torch.tensor([7, -7, 7, -7, 0]), torch.tensor([3, 3, -3, -3, 4])
case("div_integer", "div", [i, j], torch.div(i, j, rounding_mode="trunc"))
case("mod_integer", "mod", [i, j], torch.remainder(i, j))
case("fmod_integer", "mod", [i, j], torch.fmod(i, j), "{fmod}")
case("fmod", "mod", [x, pos], torch.fmod(x, pos), "{fmod}")
big = torch.tensor([2 ** 62 + 1, -2 ** 62 - 3])
case("integers_stay_exact", "sub", [big, torch.tensor([2 ** 61, 7])], big - torch.tensor([2 ** 61, 7]))
p, q = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
case("and", "and", [p, q], p & q)
case("or", "or", [p, q], p | q)
case("xor", "xor", [p, q], p ^ q)
case("not", "not", [p], ~p)
case("and_bits", "and", [i, j], i & j)
for n, (name, rule) in enumerate([("eq", torch.eq), ("lt", torch.lt), ("le", torch.le), ("gt", torch.gt), ("ge", torch.ge)]):
    case(f"compare_{name}", "compare", [i, torch.tensor([7, 3, 8, -8, 0])], rule(i, torch.tensor([7, 3, 8, -8, 0])),
         f"{{predicate = {n} : i32}}")
case("select", "select", [x > 0, x, row], torch.where(x > 0, x, row))
case("cast_to_integer", "cast", [x * 5], (x * 5).to(torch.int64))
case("cast_to_bool", "cast", [torch.tensor([0.0, -0.5, 2.0])], torch.tensor([False, True, True]))

t = torch.randn(2, 3, 4)
case("reshape", "reshape", [t], t.reshape(2, 12), "", [("[0, -1]", "tensor<2xi64>")])
case("transpose", "transpose", [t], t.permute(2, 0, 1), "{permutation = array<i64: 2, 0, 1>}")
e = torch.randn(3, 1)
case("expand", "expand", [e], e.expand(2, 3, 4), "", [("[2, 1, 4]", "tensor<3xi64>")])
case("squeeze", "squeeze", [t.reshape(2, 1, 3, 1, 4)], t.reshape(2, 3, 1, 4), "", [("[1]", "tensor<1xi64>")])
case("unsqueeze", "unsqueeze", [t], t[:, None, :, :, None], "", [("[1, -1]", "tensor<2xi64>")])
segments = "{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}"
case("slice", "slice", [t], t[1:, :-1, 1::2], segments,
     [("[1, 0, 1]", "tensor<3xi64>"), ("[9223372036854775807, -1, 9223372036854775807]", "tensor<3xi64>"),
      ("[0, 1, -1]", "tensor<3xi64>"), ("[1, 1, 2]", "tensor<3xi64>")])
case("slice_backwards", "slice", [t], t.flip(2)[:, :, ::2], segments,
     [("[-1]", "tensor<1xi64>"), ("[-9223372036854775807]", "tensor<1xi64>"), ("[2]", "tensor<1xi64>"),
      ("[-2]", "tensor<1xi64>")])
case("concat", "concat", [t, t[:, :1]], torch.cat([t, t[:, :1]], 1), "{axis = 1 : i64}")
case("tile", "tile", [t], t.repeat(2, 1, 3), "", [("[2, 1, 3]", "tensor<3xi64>")])
case("pad", "pad", [torch.ones(2)], torch.tensor([0.0, 1, 0, 0, 1, 0]), "{low = array<i64: 1>, step = array<i64: 3>}")
case("shape", "shape", [t], torch.tensor([3, 4]), "{start = -2 : i64}")
case("size", "size", [t], torch.tensor(24))
case("range", "range", [torch.tensor(2), torch.tensor(11), torch.tensor(3)], torch.arange(2, 11, 3))
case("range_float", "range", [torch.tensor(1.0), torch.tensor(0.0), torch.tensor(-0.25)], torch.arange(1.0, 0.0, -0.25))
case("nonzero", "nonzero", [p.reshape(2, 2)], p.reshape(2, 2).nonzero().T)

index = torch.tensor([[0, 2], [1, -1]])
case("gather", "gather", [t, index], t[:, torch.tensor([[0, 2], [1, 2]])], "{axis = 1 : i64}")
case("gather_nd", "gather_nd", [t, torch.tensor([[0, 2], [1, 1]])], t[torch.tensor([0, 1]), torch.tensor([2, 1])],
     "{batch_dims = 0 : i64}")
case("gather_nd_batch", "gather_nd", [t, torch.tensor([[2], [0]])], torch.stack([t[0, 2], t[1, 0]]), "{batch_dims = 1 : i64}")
elements = torch.tensor([[[0, 2, 1, 1]], [[2, 2, 0, 1]]])
case("gather_elements", "gather_elements", [t, elements], torch.gather(t, 1, elements), "{axis = 1 : i64}")
updates = torch.randn(2, 1, 4)
for reduction, name in {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}.items():
    expected = t.scatter(1, elements, updates) if name is None else t.scatter_reduce(1, elements, updates, name)
    case(f"scatter_elements_{reduction}", "scatter_elements", [t, elements, updates], expected,
         f'{{axis = 1 : i64, reduction = "{reduction}"}}')
base = torch.zeros(4, 3)
case("scatter_nd_add", "scatter_nd", [base, torch.tensor([[1], [1], [3]]), torch.ones(3, 3)],
     base.index_add(0, torch.tensor([1, 1, 3]), torch.ones(3, 3)), '{reduction = "add"}')
case("triu", "trilu", [t], torch.triu(t, 1), "{upper = true}", [("1", "tensor<i64>")])
case("tril", "trilu", [t], torch.tril(t), "{upper = false}")

case("reduce_sum", "reduce", [t], t.sum((0, 2)), "{kind = 0 : i32, axes = array<i64: 0, 2>}")
case("reduce_mean", "reduce", [t], t.mean(-1, keepdim=True), "{kind = 1 : i32, axes = array<i64: -1>, keepdims}")
case("reduce_max", "reduce", [t], t.amax(1), "{kind = 2 : i32, axes = array<i64: 1>}")
case("reduce_min", "reduce", [t], t.amin(), "{kind = 3 : i32}")
case("reduce_prod", "reduce", [t], t.prod(1), "{kind = 4 : i32}", [("[1]", "tensor<1xi64>")])
case("reduce_nothing", "reduce", [t], t, "{kind = 0 : i32, noop_with_empty_axes}")
case("cumsum", "cumsum", [t], t.cumsum(1), "{axis = 1 : i64}")
case("cumsum_reverse", "cumsum", [t], t.flip(2).cumsum(2).flip(2) - t, "{axis = 2 : i64, reverse, exclusive}")
case("softmax", "softmax", [t], t.softmax(1), "{axis = 1 : i64}")
case("log_softmax", "log_softmax", [t], t.log_softmax(-1), "{axis = -1 : i64}")
scale, bias = torch.randn(4), torch.randn(4)
case("layer_norm", "layer_norm", [t, scale, bias], F.layer_norm(t, (4,), scale, bias, 1e-3), "{axis = -1 : i64, epsilon = 1.0e-3 : f64}")
case("rms_norm", "rms_norm", [t, scale], F.rms_norm(t, (4,), scale, 1e-3), "{axis = -1 : i64, epsilon = 1.0e-3 : f64}")

a, b = torch.randn(2, 1, 3, 4), torch.randn(5, 4, 6)
case("matmul", "matmul", [a, b], a @ b)
case("matmul_transposed", "matmul", [a.mT.contiguous(), b.mT.contiguous()], a @ b, "{transpose_lhs, transpose_rhs}")
case("matmul_vectors", "matmul", [row, row], row @ row)
w, wb = torch.randn(5, 4), torch.randn(5)
case("linear", "linear", [t, w, wb], F.linear(t, w, wb))
case("linear_in_out", "linear", [t, w.T.contiguous()], F.linear(t, w), "{in_out}")
g = torch.randn(2, 3, 5)
case("linear_weight_grad", "linear_weight_grad", [t, g], torch.einsum("abi,abo->oi", t, g))
image, kernel = torch.randn(2, 4, 5, 6), torch.randn(6, 2, 2, 3)
case("conv", "conv", [image, kernel, torch.arange(6.0)], F.conv2d(F.pad(image, (0, 1, 1, 0)), kernel, torch.arange(6.0), (2, 1), 0, (1, 2), 2),
     "{strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 2>, group = 2 : i64}")


def reference_attention(q, k, v, allowed=None, added=None, scale=0.5, cap=None):
    k, v = (u.repeat_interleave(q.shape[1] // k.shape[1], 1) for u in (k, v))
    scores = q @ k.mT * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if added is not None:
        scores = scores + added
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ v, scores.logsumexp(-1)


def attention_case(name, q, k, v, expected, kind, extra="", mask=None, borders=None, types=None, sinks=None):
    inputs = [q, k, v] + [u for u in (mask, borders, types, sinks) if u is not None]
    sizes = "1, 1, 1, " + ", ".join(str(int(u is not None)) for u in (mask, borders, types, sinks))
    case(name, "attention", inputs, expected,
         f"{{scale = 0.5 : f64, mask_kind = {kind} : i32{extra}, operandSegmentSizes = array<i32: {sizes}>}}")


q, k, v = torch.randn(1, 4, 6, 4), torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 3)
borders, types = torch.tensor([0, 2, 6, 6, 6, 6, 6], dtype=torch.int32), torch.tensor([0, 1, 0, 1, 0, 1], dtype=torch.int32)
borders_of_samples = borders
segment = torch.tensor([0, 0, 1, 1, 1, 1])
same = segment[:, None] == segment[None, :]
n = torch.arange(6)
causal = n[None, :] <= n[:, None]
attention_case("attention_full_segments", q, k, v, reference_attention(q, k, v, same), 1, borders=borders)
attention_case("attention_causal", q, k, v, reference_attention(q, k, v, causal), 2)
attention_case("attention_causal_segments", q, k, v, reference_attention(q, k, v, same & causal), 2, borders=borders)
attention_case("attention_sliding", q, k, v, reference_attention(q, k, v, causal & (n[:, None] - n[None, :] < 3)), 3, ", window = 3 : i64")
attention_case("attention_prefix", q, k, v, reference_attention(q, k, v, same & (causal | (types == 0)[None, :])), 4, borders=borders, types=types)
blocks = torch.tensor([1, 1, 1, 0, 2, 1], dtype=torch.int32)
number, inside = (blocks == 0).cumsum(0), blocks > 0
block = inside[:, None] & inside[None, :] & (number[:, None] == number[None, :])
attention_case("attention_blocks", q, k, v, reference_attention(q, k, v, same & (causal & (n[:, None] - n[None, :] < 2) | block), cap=2.0), 5,
               ", window = 2 : i64, type_range = array<i64: 1, 2>, softcap = 2.0 : f64", borders=borders, types=blocks)
attention_case("attention_prefix_itself", q, k, v, reference_attention(q, k, v, causal | (types == 0)[None, :] & (types == 0)[:, None]), 4,
               ", type_range = array<i64: 0, 0>", types=types)
attention_case("attention_chunked", q, k, v, reference_attention(q, k, v, same & causal & (n[:, None] // 2 == n[None, :] // 2)), 6,
               ", window = 2 : i64", borders=borders)
allowed = torch.rand(6, 6) > 0.4
allowed[3] = False
attention_case("attention_mask", q, k, v, reference_attention(q, k, v, allowed), 0, mask=allowed)
added = torch.randn(1, 4, 1, 6)
attention_case("attention_bias_softcap", q, k, v, reference_attention(q, k, v, None, added, cap=2.0), 0, ", softcap = 2.0 : f64", mask=added)

cos, sin = torch.randn(7, 2), torch.randn(7, 2)
positions = torch.tensor([0, 1, 6, 2, 2, 5], dtype=torch.int32)
head, rest = q[..., :2], q[..., 2:]
half = torch.stack([-head[..., 1], head[..., 0]], -1)
case("rope", "rope", [q, positions, cos, sin], torch.cat([head * cos[positions] + half * sin[positions], rest], -1))
cos, sin = torch.randn(7, 4), torch.randn(7, 4)
paired = torch.stack([-q[..., 1], q[..., 0], -q[..., 3], q[..., 2]], -1)
case("rope_interleaved", "rope", [q, positions, cos, sin], q * cos[positions] + paired * sin[positions], "{interleaved}")

ids = torch.tensor([3, 0, 3], dtype=torch.int32)
case("embedding", "embedding", [w, ids], w[ids])
case("embedding_grad", "embedding_grad", [torch.ones(3, 4), ids], torch.zeros(5, 4).index_add(0, ids, torch.ones(3, 4)))
case("embedding_grad_padding", "embedding_grad", [torch.ones(3, 4), ids],
     torch.zeros(5, 4).index_add(0, ids, torch.ones(3, 4) * (ids != 3)[:, None]), "{padding = 3 : i64}")
text, features = torch.randn(1, 4, 3), torch.randn(1, 2, 3)
rows = torch.tensor([-1, 1, -1, 0], dtype=torch.int32)
case("image_merge", "image_merge", [text, features, rows],
     torch.stack([text[0, 0], features[0, 1], text[0, 2], features[0, 0]])[None])

logits, targets = torch.randn(4, 5), torch.tensor([2, -1, 0, 4], dtype=torch.int32)


def token_losses(values):
    return F.cross_entropy(values, targets.long(), ignore_index=-1, reduction="none")


case("cross_entropy", "cross_entropy", [logits, targets], token_losses(logits))
leaf = logits.clone().requires_grad_()
case("cross_entropy_grad", "cross_entropy_grad", [logits, targets],
     (token_losses(logits), torch.autograd.grad(token_losses(leaf).sum(), leaf)[0]))
hidden, vocabulary, offset = (torch.randn(*s, requires_grad=True) for s in ((4, 3), (5, 3), (5,)))
loss = token_losses(0.7 * hidden @ vocabulary.T + offset)
gradients = torch.autograd.grad(loss.sum(), (hidden, vocabulary, offset))
inputs = [u.detach() for u in (hidden, vocabulary, offset)] + [targets]
case("linear_cross_entropy", "linear_cross_entropy", inputs, loss.detach(), "{scale = 0.7 : f64}")
case("linear_cross_entropy_grad", "linear_cross_entropy_grad", inputs, (loss.detach(), *gradients), "{scale = 0.7 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}")
row_weights = torch.tensor([0.5, 7, -2, 0])
case("linear_cross_entropy_grad_of_weighted_rows", "linear_cross_entropy_grad", [*inputs, row_weights],
     (loss.detach(), *torch.autograd.grad((row_weights * token_losses(0.7 * hidden @ vocabulary.T + offset)).sum(),
                                          (hidden, vocabulary, offset))),
     "{scale = 0.7 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}")

# Pairs of 2 and 3 tokens, and of 1 and 1; two tokens belong to nobody.
given = torch.tensor([0.5, 1.5, 0.25, 2, 1, 3, 0.75, 9, 9])
borders = torch.tensor([0, 2, 5, 6, 7, 7, 7, 7, 7, 7], dtype=torch.int32)
reference = torch.tensor([-3.0, 8, -2.5, 8, 8, -2.75, -1.5, 8, 8])


def dpo(values, beta, smoothing):
    """TRL's sigmoid loss and rewards, a pair."""
    found = []
    for begin, middle, end in ((0, 2, 5), (5, 6, 7)):
        chosen, rejected = (beta * (-values[a:b].sum() - reference[a]) for a, b in ((begin, middle), (middle, end)))
        margin = chosen - rejected
        found.append((-F.logsigmoid(margin) * (1 - smoothing) - F.logsigmoid(-margin) * smoothing, chosen, rejected, (margin > 0).double()))
    return tuple(torch.stack(column) for column in zip(*found))


def at_first_rows(values):
    return torch.zeros(9).index_put((torch.tensor([0, 5]),), values)


leaf, of_pairs = given.clone().requires_grad_(), torch.tensor([2.0, 5, 5, 5, 5, -3, 5, 5, 5])
case("preference_loss", "preference_loss", [given, borders, reference], tuple(map(at_first_rows, dpo(given, 0.5, 0.0))),
     "{beta = 0.5 : f64}")
case("preference_loss_smoothed", "preference_loss", [given, borders, reference], tuple(map(at_first_rows, dpo(given, 2.0, 0.2))),
     "{beta = 2.0 : f64, smoothing = 0.2 : f64}")
case("preference_loss_grad", "preference_loss_grad", [given, borders, reference],
     torch.autograd.grad(dpo(leaf, 0.5, 0.0)[0].sum(), leaf)[0], "{beta = 0.5 : f64}")
case("preference_loss_grad_of_weighted_pairs", "preference_loss_grad", [given, borders, reference, of_pairs],
     torch.autograd.grad((dpo(leaf, 2.0, 0.2)[0] * of_pairs[[0, 5]]).sum(), leaf)[0], "{beta = 2.0 : f64, smoothing = 0.2 : f64}")

scores = torch.tensor([[1.0, 4, 4, -2], [0, 3, -1, 5]])
case("top_k", "top_k", [scores], torch.tensor([[1, 2, 0], [3, 1, 0]]), "{k = 3 : i64}")  # topk's ties have no order
case("top_k_smallest", "top_k", [torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(5))],
     torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(5)).topk(2, largest=False)[1], "{k = 2 : i64, smallest}")
experts = torch.tensor([[2, 0], [2, 3], [0, 2]])
order = experts.flatten().argsort(stable=True).to(torch.int32)
borders = torch.tensor([0, *experts.flatten().bincount(minlength=4).cumsum(0)], dtype=torch.int32)
case("group_rows", "group_rows", [experts], (order, borders), "{groups = 4 : i64}")
rows, matrices = torch.randn(3, 2, 5), torch.randn(4, 6, 5)
product = torch.einsum("abi,aboi->abo", rows, matrices[experts])
case("grouped_linear", "grouped_linear", [rows, matrices, order, borders], product)
case("grouped_linear_in_out", "grouped_linear", [rows, matrices.mT.contiguous(), order, borders], product, "{in_out}")
up = torch.randn(3, 2, 6)
sums = torch.zeros(4, 6, 5).index_add(0, experts.flatten(), torch.einsum("abo,abi->aboi", up, rows).flatten(0, 1))
case("grouped_linear_weight_grad", "grouped_linear_weight_grad", [rows, up, order, borders], sums)
case("grouped_linear_weight_grad_in_out", "grouped_linear_weight_grad", [rows, up, order, borders], sums.mT.contiguous(), "{in_out}")

draw = torch.Generator().manual_seed(6)
sinks = torch.randn(4, generator=draw)
scores = (q @ k.repeat_interleave(2, 1).mT * 0.5).masked_fill(~(same & causal), float("-inf"))
joined = torch.cat([scores, sinks[:, None, None].expand(1, 4, 6, 1)], -1)
attention_case("attention_sinks", q, k, v, (joined.softmax(-1)[..., :-1] @ v.repeat_interleave(2, 1), joined.logsumexp(-1)), 2,
               borders=borders_of_samples, sinks=sinks)


def gated_delta(q, k, v, decay, beta, first, scale):
    """Token by token; the state begins again where `first` is true."""
    rows = []
    state = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3])
    for t in range(q.shape[2]):
        state = torch.zeros_like(state) if first[t] else state * decay[:, :, t, None, None].exp()
        update = (v[:, :, t] - torch.einsum("bhi,bhij->bhj", k[:, :, t], state)) * beta[:, :, t, None]
        state = state + k[:, :, t, :, None] * update[:, :, None]
        rows.append(scale * torch.einsum("bhi,bhij->bhj", q[:, :, t], state))
    return torch.stack(rows, dim=2)


shapes = (1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 3), (1, 2, 6), (1, 2, 6)
q, k, v, decay, beta = (torch.randn(*shape, generator=draw).requires_grad_() for shape in shapes)
first = [True, False, True, False, False, False]
result = gated_delta(q, k, v, decay, beta, first, 0.5)
up = torch.randn(*result.shape, generator=draw)
gradients = torch.autograd.grad((result * up).sum(), (q, k, v, decay, beta))
inputs = [u.detach() for u in (q, k, v, decay, beta)]
case("gated_delta", "gated_delta", [*inputs, borders_of_samples], result.detach(), "{scale = 0.5 : f64}")
case("gated_delta_grad", "gated_delta_grad", [*inputs, up, borders_of_samples], gradients, "{scale = 0.5 : f64}")

w, a, b = (torch.randn(*s, generator=draw) for s in ((4, 5), (2, 5), (4, 2)))
squares = torch.linalg.norm(w + 0.7 * b @ a, dim=1) ** 2
case("row_squares", "row_squares", [w, a, b], squares, "{scale = 0.7 : f64}")
case("row_squares_in_out", "row_squares", [w.T.contiguous(), a, b], squares, "{scale = 0.7 : f64, in_out}")

path = pathlib.Path(__file__).with_name("interpreter.json")
path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases in {path}")
