#!/usr/bin/env python3
"""The constructs of Python and PyTorch that are replaced while a model is traced: each in a small module of its own, so
that the next family with the same construct works. What is traced is run on other numbers of pictures."""
import types
import unittest

from made_up_module import MadeUpModule, Traced  # and where the exporter is

import torch
from exporter import tracing
from exporter.constructs import balancing, experts, gradients, recurrences, rewriting
from exporter.pictures import grids
from exporter.errors import ExportError


class Constructs(MadeUpModule):
    def check(self, change, function, traced, others):
        """Traced on one set of inputs, equal to the plain function on others."""
        shapes = tuple({0: torch.export.Dim.DYNAMIC} if axis else None for axis in traced["free"])
        with change, torch.fx.experimental._config.patch(backed_size_oblivious=True):
            program = torch.export.export(Traced(function), traced["inputs"], dynamic_shapes=(shapes,), strict=False)
        for inputs in others:
            torch.testing.assert_close(program.module()(*inputs), function(*inputs))

    def test_a_list_of_pictures_leaves_their_number_free(self):
        make = lambda n: (torch.randn(n, 5, 4),)
        self.check(tracing.without_listing(), self.module.listed, dict(inputs=make(3), free=[True]), [make(1), make(2), make(7)])

    def test_list_is_still_a_class(self):
        with tracing.without_listing():
            self.assertEqual(self.module.is_list([1]), (True, True, [1, 2], False))
        self.assertNotIn("list", vars(self.module))

    def test_a_split_by_lengths_that_are_data(self):
        make = lambda *lengths: (torch.randn(sum(lengths), 4), torch.tensor(lengths))
        self.check(tracing.without_splitting(), self.module.split, dict(inputs=make(2, 3), free=[True, False]),
                   [make(1, 1), make(5, 2)])

    def test_rows_written_where_a_mask_has_any(self):
        def make(*places):
            mask = torch.zeros(6, dtype=torch.int64)
            mask[list(places)] = 1
            return torch.randn(6, 4), mask, torch.randn(4)
        self.check(tracing.with_bodies_of_any(), self.module.written, dict(inputs=make(1, 2), free=[True, True, False]),
                   [make(), make(0, 4, 5)])

    def test_a_number_written_where_a_mask_is(self):
        make = lambda rows: (torch.randn(rows, 4), torch.arange(rows) % 3 == 0)
        self.check(tracing.with_masks_filled(), self.module.filled, dict(inputs=make(5), free=[True, True]), [make(2), make(7)])
        with tracing.with_masks_filled():
            program = torch.export.export(Traced(self.module.filled), make(5), strict=False)
        self.assertFalse([n for n in program.graph.nodes if "index_put" in str(n.target)])

    def test_counts_that_depend_on_data_are_not_compared(self):
        def make(*places):
            mask = torch.zeros(6, dtype=torch.bool)
            mask[list(places)] = True
            return torch.randn(6, 4), mask, torch.randn(len(places), 4)
        self.check(tracing.without_counting(), self.module.counted, dict(inputs=make(1, 2), free=[True, True, True]), [make(0, 4, 5)])
        with tracing.without_counting(), self.assertRaisesRegex(TypeError, "AnyCount"):
            torch.export.export(Traced(self.module.sized), make(1)[:2], strict=False)

    def test_linear_attention_is_one_node_for_any_length(self):
        """Against the rule token by token; two heads of values for each of keys."""
        import onnxruntime

        def inputs(length):
            draw = torch.Generator().manual_seed(length)
            q, k = (torch.randn(2, length, 2, 4, generator=draw) for _ in range(2))
            v = torch.randn(2, length, 4, 3, generator=draw)
            return q, k, v, -torch.rand(2, length, 4, generator=draw), torch.rand(2, length, 4, generator=draw)

        def by_tokens(q, k, v, g, b):
            q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
            q, k = (x.repeat_interleave(2, dim=2) for x in (q, k))
            state, rows = torch.zeros(2, 4, 4, 3), []
            for t in range(q.shape[1]):
                state = state * g[:, t, :, None, None].exp()
                update = (v[:, t] - torch.einsum("bhi,bhij->bhj", k[:, t], state)) * b[:, t, :, None]
                state = state + k[:, t, :, :, None] * update[:, :, None]
                rows.append(torch.einsum("bhi,bhij->bhj", q[:, t], state) / 2)
            return torch.stack(rows, dim=1)

        length = torch.export.Dim("length")
        with recurrences.as_nodes([self.module]):
            program = torch.export.export(Traced(self.module.linear_attention), inputs(5),
                                          dynamic_shapes=(tuple({1: length} for _ in range(5)),), strict=False)
        graph = torch.onnx.export(program, (), opset_version=18, optimize=False, verbose=False).model_proto
        self.assertEqual([node.domain for node in graph.graph.node if node.op_type == "LinearAttention"], ["com.microsoft"])
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        for length in (1, 5, 70, 200):
            values = inputs(length)
            names = [value.name for value in session.get_inputs()]
            result, = session.run(None, {name: value.numpy() for name, value in zip(names, values)})
            torch.testing.assert_close(torch.from_numpy(result), by_tokens(*values), atol=1e-5, rtol=1e-4)

    def test_attention_in_segments(self):
        lengths = [3, 1, 4]
        query, key, value = (torch.randn(1, 4, 8, 6) for _ in range(3))
        borders = torch.tensor([0, 3, 4, 8])
        self.assertEqual(grids.ids_of(borders).tolist(), [0, 0, 0, 1, 2, 2, 2, 2])
        got, _ = grids.attend_in_segments(None, query, key[:, :2], value[:, :2], scaling=0.3,
                                          cu_seq_lens_q=grids.Segments(grids.ids_of(borders)))
        parts = zip(*(t.split(lengths, dim=2) for t in (query, key[:, :2].repeat_interleave(2, 1), value[:, :2].repeat_interleave(2, 1))))
        wanted = torch.cat([torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3) for q, k, v in parts], dim=2)
        torch.testing.assert_close(got, wanted.transpose(1, 2))

    def test_a_new_dimension_of_complex_numbers(self):
        def rotated(x, angles):
            turns = torch.polar(torch.ones_like(angles), angles)[:, None]
            return torch.view_as_real(torch.view_as_complex(x.reshape(5, 3, 4, 2)) * turns).flatten(2)
        inputs = torch.randn(5, 3, 8), torch.randn(5, 4)
        program = rewriting.with_complex_unsqueezed(torch.export.export(Traced(rotated), inputs, strict=False))
        self.assertFalse([node for node in program.graph.nodes if "unsqueeze" in str(node.target)])
        torch.testing.assert_close(program.module()(*inputs), rotated(*inputs))
        torch.onnx.export(program, (), opset_version=18, optimize=False, verbose=False)

    def test_buckets_without_boundaries(self):
        def rows(x, table, boundaries):
            return table[torch.bucketize(x, boundaries, right=True)]
        x, table = torch.tensor([[0.0, 0.3], [0.6, 0.9]]), torch.randn(3, 2)
        for boundaries in (torch.zeros(0), torch.tensor([0.3, 0.7])):
            program = torch.export.export(Traced(rows), (x, table, boundaries), strict=False)
            program = rewriting.with_single_buckets_zero(program)
            torch.testing.assert_close(program.module()(x, table, boundaries), rows(x, table, boundaries))
            torch.onnx.export(program, (), opset_version=18, optimize=False, verbose=False)

    def test_sums_scattered_by_a_mask(self):
        def added(x, mask, rows):
            wide = mask.unsqueeze(-1)
            return x.masked_scatter(wide, (x[wide.squeeze(-1)] + rows).view(-1))

        def plain(x, mask, rows):
            return x.masked_scatter(mask.unsqueeze(-1), rows)
        x, rows = torch.randn(2, 4, 3), torch.randn(3, 3)
        mask = torch.tensor([[True, False, False, True], [False, True, False, False]])
        for function, scatters in ((added, 0), (plain, 1)):
            program = rewriting.with_sums_put(torch.export.export(Traced(function), (x, mask, rows), strict=False))
            self.assertEqual(len([node for node in program.graph.nodes if "masked_scatter" in str(node.target)]), scatters)
            torch.testing.assert_close(program.module()(x, mask, rows), function(x, mask, rows))

    def test_shifts_by_one_whose_first_place_is_written_over(self):
        def starts(x):
            marks = x == 1
            before = torch.roll(marks, shifts=1, dims=-1)
            before[..., 0] = False
            return marks & ~before

        def rolled(x):
            return torch.roll(x, shifts=1, dims=-1)
        x = torch.tensor([[1, 1, 0, 1, 1], [0, 1, 1, 0, 1]])
        for function, rolls in ((starts, 0), (rolled, 1)):
            program = rewriting.with_shifts_padded(torch.export.export(Traced(function), (x,), strict=False))
            self.assertEqual(len([node for node in program.graph.nodes if "roll" in str(node.target)]), rolls)
            torch.testing.assert_close(program.module()(x), function(x))

    def gradients_of(self, program, table, *inputs):
        """Of a program's result squared, to the table that it holds as a parameter."""
        module = program.module()
        values = next(module.parameters())
        module(*inputs).square().sum().backward()
        return values.grad

    def test_detached_values_have_no_gradient(self):
        class Detached(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(4))

            def forward(self, x):
                return self.weight * (self.weight * x).detach() + x.detach()
        model, x = Detached(), torch.randn(4)
        model(x).square().sum().backward()
        with torch.no_grad():
            program = gradients.with_detached_held(torch.export.export(model, (x,), strict=False))
        self.assertTrue([node for node in program.graph.nodes if "floor" in str(node.target)])
        torch.testing.assert_close(program.module()(x), model(x), rtol=0, atol=0)
        torch.testing.assert_close(self.gradients_of(program, model, x), model.weight.grad)

    def test_held_values_are_the_values(self):
        x = torch.cat([torch.randn(1000) * scale for scale in (1e-5, 1.0, 1e6, 1e18)])
        self.assertTrue(torch.equal(torch.floor(x * gradients.SCALE) * (1 / gradients.SCALE), x))
        small = torch.randn(1000) * 1e-15
        self.assertLess(float((torch.floor(small * gradients.SCALE) * (1 / gradients.SCALE) - small).abs().max()), 1e-19)

    def test_experts_in_a_loop_of_their_own(self):
        class Loop(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.gate_up_proj = torch.nn.Parameter(torch.randn(4, 12, 8))
                self.down_proj = torch.nn.Parameter(torch.randn(4, 8, 6))

            def forward(self, hidden_states, top_k_index, top_k_weights):
                result = torch.zeros_like(hidden_states)
                for expert in range(4):
                    rows, place = torch.where(top_k_index == expert)
                    part = self._apply_gate(hidden_states[rows] @ self.gate_up_proj[expert].T) @ self.down_proj[expert].T
                    result.index_add_(0, rows, part * top_k_weights[rows, place, None])
                return result

            def _apply_gate(self, values):
                gate, up = values.chunk(2, dim=-1)
                return gate.clamp(max=0.5) * up
        experts_ = torch.nn.ModuleDict({"experts": Loop(), "other": torch.nn.Linear(3, 3)})
        experts_.config = types.SimpleNamespace(sub_configs={})
        inputs = torch.randn(7, 8), torch.rand(7, 4).topk(2).indices, torch.rand(7, 2)
        wanted = experts_["experts"](*inputs)
        with experts.without_loops(experts_):
            program = torch.export.export(experts_["experts"], inputs, strict=False)
        torch.testing.assert_close(program.module()(*inputs), wanted)
        torch.testing.assert_close(experts_["experts"](*inputs), wanted)
        self.assertFalse({"has_gate", "forward"} & set(vars(experts_["experts"])))


def router_loss(token_loss, aux_loss, coefficient):
    """As models add them."""
    loss = token_loss
    loss += coefficient * aux_loss.to(loss.device)
    return loss


class Balancing(unittest.TestCase):
    def test_the_loss_is_transformers(self):
        from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
        torch.manual_seed(3)
        gates = tuple(torch.randn(12, 5) for _ in range(3))
        mask = torch.ones(2, 6, dtype=torch.int64)
        mask[1, 2:] = 0
        for attention_mask in (None, mask):
            for chosen in (1, 2, 4):
                wanted = load_balancing_loss_func(gates, 5, chosen, attention_mask)
                torch.testing.assert_close(balancing.load_balancing_loss(gates, 5, chosen, attention_mask), wanted)
        self.assertEqual(float(balancing.load_balancing_loss([torch.zeros(0, 5)], 5, 2)), 0)

    def model(self, forward, asking=True):
        model = types.SimpleNamespace(config=types.SimpleNamespace(output_router_logits=asking))
        kind = type("Model", (types.SimpleNamespace,), {"forward": forward, "loss_function": None})
        return kind(**vars(model))

    def noted(self, forward, asking=True, function=lambda gate_logits, num_experts, top_k, attention_mask: None):
        module = types.SimpleNamespace(load_balancing_loss_func=function)
        model = self.model(lambda model, input_ids, labels=None: forward(model, module, labels), asking)
        with balancing.noted(model, [module]) as added:
            model.forward(input_ids=torch.zeros(1, 3))
        self.assertIs(module.load_balancing_loss_func, function)
        return added

    def adding(self, factor):
        return lambda model, module, labels: router_loss(
            model.loss_function(labels), module.load_balancing_loss_func((torch.zeros(3, 4),), 4, 2, None), factor)

    def test_the_coefficient_is_what_the_model_multiplies_with(self):
        added = self.noted(self.adding(0.125))
        self.assertEqual(added.coefficient, 0.125)
        self.assertEqual(float(added.results("logits")[1]), 2)  # equal shares: as many as are chosen

    def test_what_is_not_asked_for_or_not_added_is_not_there(self):
        def forward(model, module, labels):
            module.load_balancing_loss_func((torch.zeros(3, 4),), 4, 2, None)
        for added in (self.noted(forward), self.noted(self.adding(0.0)), self.noted(lambda *_: None, asking=False)):
            self.assertEqual(added.results("logits"), "logits")

    def test_other_losses_are_refused(self):
        with self.assertRaisesRegex(ExportError, "what is no balancing loss"):
            self.noted(lambda model, module, labels: model.loss_function(labels) + torch.ones(()))
        with self.assertRaisesRegex(ExportError, "another balancing loss"):
            self.noted(self.adding(1.0), function=lambda gate_logits, num_keys: None)


if __name__ == "__main__":
    unittest.main()
