#!/usr/bin/env python3
"""The constructs of Python and PyTorch that are replaced while a model is traced: each in a small module of its own, so
that the next family with the same construct works. What is traced is run on other numbers of pictures."""
import os
import sys
import types
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))

import numpy as np
import torch
from exporter import samples, tracing
from exporter.constructs import balancing, batching, experts, gradients, host_values, recurrences, rewriting
from exporter.pictures import arrangement, candidates, derivation, grids, one_size, probing, processors
from exporter.errors import ExportError
from exporter.constructs.host_values import HostValues

CODE = """
import torch

def listed(x):
    return torch.cat(list(x), dim=0)

def is_list(x):
    return isinstance(x, list), isinstance(list((1, 2)), list), list((1, 2)), isinstance(torch.zeros(2, 2), list)

def split(x, sizes):
    return torch.cat([part * 2 for part in x.split(sizes.tolist())], dim=0)

def written(x, mask, row):
    mask = mask.bool()
    x = x.clone()
    if mask.any():
        x[mask] = row
    return x

def filled(x, mask):
    x = x.clone()
    x[mask] = 0.5
    return x

def counted(x, mask, rows):
    if x[mask].numel() != rows.numel():
        raise ValueError("the counts differ")
    return x.masked_scatter(mask.unsqueeze(-1), rows)

def sized(x, mask):
    return x * x[mask].numel()

def torch_chunk_gated_delta_rule(query, key, value, g, beta, **options):
    raise NotImplementedError("in chunks of the traced length")

def linear_attention(q, k, v, g, b):
    return torch_chunk_gated_delta_rule(q, k, v, g=g, beta=b, initial_state=None, output_final_state=False,
                                        use_qk_l2norm_in_kernel=True)[0]
"""


class Traced(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class MadeUpModule(unittest.TestCase):
    def setUp(self):
        self.name = "transformers.models.made_up.modeling_made_up"
        self.module = types.ModuleType(self.name)
        sys.modules[self.name] = self.module
        self.addCleanup(sys.modules.pop, self.name)
        exec(CODE, vars(self.module))


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

    def test_positions_in_floating_point_are_whole_numbers(self):
        for step, kind in ((1.0, torch.int64), (0.5, torch.float32)):
            owner = types.SimpleNamespace(get_rope_index=lambda input_ids: (torch.arange(3) * step, None))
            self.assertEqual(samples.rope_positions(owner, dict(input_ids=[1], other=[2])).dtype, kind)

    def test_lengths_of_pictures_are_numbers_of_segments(self):
        """The picture of each patch, from cumulative lengths of any number of pictures."""
        def pictures_of(lengths, count):
            return (torch.arange(count)[None] >= lengths.cumsum(0)[:, None]).sum(0)

        def forward(ids):
            borders = grids.Segments(ids)
            return pictures_of(borders[1:] - borders[:-1], ids.shape[0])
        shapes = ({0: torch.export.Dim.DYNAMIC},)
        program = torch.export.export(Traced(forward), (torch.tensor([0, 0, 0, 1, 2, 2]),), dynamic_shapes=(shapes,), strict=False)
        for ids in ([0, 1, 1, 1, 1, 2, 3, 3], [0, 0]):
            self.assertEqual(program.module()(torch.tensor(ids)).tolist(), ids)
        lengths = grids.Segments(torch.tensor([0, 0, 0, 1]))[1:] - grids.Segments(torch.tensor([0, 0, 0, 1]))[:-1]
        self.assertEqual(lengths.tolist(), [3, 1, 0, 0])


def sizes_used(x, sizes):
    """What models do with the sizes of pictures: loops, splits, masks, positions, decisions."""
    lengths = sizes.prod(-1)
    parts = x.split(lengths.tolist())
    steps = torch.arange(int(lengths.max()))
    kept = steps[steps % 2 == 0]
    mask = torch.zeros(len(steps), dtype=torch.bool)
    mask[kept] = True
    total = sum(part.sum(0) for part in parts)
    if (sizes > 1).all() and mask[:3].sum() == 2:
        total = total * 2
    for row, column in sizes:
        total = total + x[: row * column].sum(0)
    return total, (sizes[:, 0] // 2).cumsum(0)


class Sizes(MadeUpModule):
    def test_what_follows_from_sizes_is_known_while_tracing(self):
        sizes = torch.tensor([[2, 3], [4, 2]])

        def with_host_values(x):
            with HostValues():
                return sizes_used(x, sizes)
        x = torch.randn(14, 5)
        with self.assertRaises(Exception):
            torch.export.export(Traced(lambda x: sizes_used(x, sizes * torch.ones_like(x[0, 0]).long())), (x,), strict=False)
        program = torch.export.export(Traced(with_host_values), (x,), strict=False)
        other = torch.randn(14, 5)
        for got, wanted in zip(program.module()(other), sizes_used(other, sizes)):
            torch.testing.assert_close(got, wanted)

    def test_what_is_written_over_is_no_longer_known(self):
        def forward(x):
            with HostValues() as known:
                value = torch.zeros(3)
                self.assertIsNotNone(known.value(value))
                value[1] = x[0]
                self.assertIsNone(known.value(value))
                return value + x
        x = torch.randn(3)
        program = torch.export.export(Traced(forward), (x,), strict=False)
        y = torch.randn(3)
        torch.testing.assert_close(program.module()(y), y + torch.tensor([0, y[0], 0]))

    def test_rows_chosen_by_a_known_mask(self):
        mask = torch.tensor([[True, False, True], [True, True, False]])

        def chosen(x):
            return x[mask] * 2, x[mask | True], x[:, mask[0]]

        def with_host_values(x):
            with HostValues():
                return chosen(x)
        program = torch.export.export(Traced(with_host_values), (torch.randn(2, 3, 4),), strict=False)
        self.assertFalse([node for node in program.graph.nodes if "nonzero" in str(node.target)])
        x = torch.randn(2, 3, 4)
        for got, wanted in zip(program.module()(x), chosen(x)):
            torch.testing.assert_close(got, wanted)

    def test_bags_of_rows(self):
        bag = torch.nn.functional.embedding_bag
        table, places, weights = torch.randn(9, 4), torch.randint(0, 9, (5, 3)), torch.randn(5, 3)
        for given in (None, weights):
            torch.testing.assert_close(batching.embedding_bag(bag)(places, table, mode="sum", per_sample_weights=given),
                                       bag(places, table, mode="sum", per_sample_weights=given))
        torch.testing.assert_close(batching.embedding_bag(bag)(places, table), bag(places, table))

    def test_resampling_at_known_places_is_a_product(self):
        functional = torch.nn.functional
        places = torch.rand(1, 7, 1, 2) * 2 - 1

        def resampled(x):
            return (functional.interpolate(x, size=(5, 3), mode="bicubic", align_corners=False, antialias=True),
                    functional.grid_sample(x, places, mode="bicubic", padding_mode="border", align_corners=False))

        def forward(x):
            with HostValues():
                return resampled(x)
        program = torch.export.export(Traced(forward), (torch.randn(1, 3, 4, 6),), strict=False)
        targets = {str(node.target) for node in program.graph.nodes}
        self.assertFalse({t for t in targets if "upsample" in t or "grid_sample" in t})
        x = torch.randn(1, 3, 4, 6)
        for got, wanted in zip(program.module()(x), resampled(x)):
            torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)

    def sampled(self, corners=False, shift=0.5):
        """A table of positions sampled at a place for each patch, by places that follow from the picture's size."""
        def sample(table, rows, columns, height, width):
            places = torch.stack([(columns + shift) / width * 2 - 1, (rows + shift) / height * 2 - 1], dim=-1)[None, :, None]
            return torch.nn.functional.grid_sample(table, places, mode="bicubic", padding_mode="border", align_corners=corners)
        return sample

    def test_a_table_sampled_at_places_is_a_sum_of_its_entries(self):
        pictures_, merge, side = [(2, 3), (4, 1)], 2, 5
        values, settings = {}, {}
        positions = derivation.derived(pictures_, merge)["image_position_ids"]
        height, width = (torch.cat([torch.full((r * c * merge ** 2,), merge * (r, c)[axis]) for r, c in pictures_]) for axis in (0, 1))
        table = torch.randn(1, 3, side, side)
        given = (table, positions[:, 0], positions[:, 1], height, width)
        with grids.recorded(values, settings):
            wanted = self.sampled()(*given)
        self.assertEqual(settings["table"], derivation.Table(side, "bicubic", False))
        taps = derivation.taps(pictures_, merge, settings["table"])
        self.assertTrue(grids.same_samples(settings["table"], *values["places"], taps))
        with grids.recorded(moved := {}, {}):
            self.sampled(shift=0.25)(*given)
        self.assertFalse(grids.same_samples(settings["table"], *moved["places"], taps))
        rows = grids.sampled_table(table, values["places"][0])
        torch.testing.assert_close((rows[taps[0]] * taps[1][..., None]).sum(1).T[None, :, :, None], wanted, atol=1e-5, rtol=1e-5)
        with self.assertRaisesRegex(ExportError, "several tables"), grids.recorded(values, settings):
            self.sampled(corners=True)(*given)

    def test_other_ways_to_sample_a_table_are_refused(self):
        places = torch.rand(1, 7, 1, 2)
        for options, reason in ((dict(padding_mode="zeros"), "with zeros beyond"), (dict(padding_mode="border", mode="nearest"), "by nearest")):
            with self.assertRaisesRegex(ExportError, reason), grids.recorded({}, {}):
                torch.nn.functional.grid_sample(torch.randn(1, 3, 4, 4), places, **options)
        with grids.recorded(values := {}, settings := {}):  # a picture, not a table
            torch.nn.functional.grid_sample(torch.randn(2, 3, 4, 4), torch.rand(2, 7, 1, 2))
        self.assertEqual((values, settings), ({}, {}))

    def test_numbers_that_the_outputs_depend_on(self):
        def forward(x):
            used, unused = torch.tensor([2, 3]), torch.tensor([4, 5])
            x * unused.sum()
            return x + used.sum()
        program = torch.export.export(Traced(forward), (torch.zeros(3),), strict=False)
        self.assertEqual([value.tolist() for value in grids.constants_used(program)], [[2, 3]])

    def test_large_tables_are_interpolated_along_each_axis(self):
        x = torch.randn(1, 2, 12, 9)
        for options in (dict(size=(5, 7), mode="bilinear", align_corners=True), dict(size=(20, 4), mode="bicubic", antialias=True),
                        dict(scale_factor=(0.5, 2.0), mode="bilinear"), dict(size=(4, 3), mode="area"), dict(size=(7, 13))):
            torch.testing.assert_close(host_values.along_axes(x, (), options), torch.nn.functional.interpolate(x, **options),
                                       atol=1e-5, rtol=1e-5)
        with mock.patch.object(host_values, "LARGEST_MATRIX", 100), HostValues():
            got = torch.nn.functional.interpolate(x, size=(5, 7))
        torch.testing.assert_close(got, torch.nn.functional.interpolate(x, size=(5, 7)))

    def test_pictures_one_by_one(self):
        class Vision:
            """Takes rows of patches; attends within a picture by lengths that are data."""
            def get_image_features(self, pixel_values, image_sizes):
                parts = []
                for patches in pixel_values.split(image_sizes.prod(-1).tolist()):
                    query = patches[None, None] * 0.5
                    query = torch.cat([query, query[:, :, :1]], dim=2)[:, :, :-1]
                    parts.append(torch.nn.functional.scaled_dot_product_attention(query, patches[None, None], query)[0, 0])
                return dict(pooler_output=parts, deepstack_features=[pixel_values * 2, pixel_values * 3])
        vision = Vision()
        order = arrangement.usual_arrangement(4, 6, 2, 1, 1)
        picture = one_size.Picture(4, 6, order, dict(image_sizes=torch.tensor([[2, 3]])))

        def forward(pixels):
            features = one_size.features_of_all(vision, picture, pixels)
            return torch.cat(features.pooler_output), features.deepstack_features
        with torch.fx.experimental._config.patch(backed_size_oblivious=True), torch.no_grad():
            program = batching.plain(torch.export.export(Traced(forward), (torch.randn(2, 3, 4, 6),), strict=False,
                                                         dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),)))
        for count in (3, 5):
            pixels = torch.randn(count, 3, 4, 6)
            got, deep = program.module()(pixels)
            wanted = vision.get_image_features(**picture.of(pixels))
            torch.testing.assert_close(got, torch.cat(wanted["pooler_output"]))
            torch.testing.assert_close(list(deep), wanted["deepstack_features"])

    def test_the_order_of_patches_is_read_off_numbered_pixels(self):
        height, width, side, merge, copies = 16, 24, 4, 2, 2
        places = torch.arange(3 * height * width).reshape(3, height, width)
        usual = places.reshape(1, 3, height // 8, merge, side, width // 8, merge, side).expand(copies, -1, -1, -1, -1, -1, -1, -1)
        usual = usual.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, 3 * copies * side ** 2)
        last = places.reshape(3, height // side, side, width // side, side).permute(1, 3, 2, 4, 0).reshape(-1, 3 * side ** 2)
        for order in (usual, last):
            found = arrangement.arrangement_of(order.numpy(), height, width)
            torch.testing.assert_close(found(places), order)
        torch.testing.assert_close(arrangement.usual_arrangement(height, width, side, merge, copies)(places), usual)
        self.assertIsNone(arrangement.arrangement_of(last.numpy()[:, ::-1].copy(), height, width))
        self.assertIsNone(arrangement.arrangement_of(last.numpy()[:-1], height, width))

    def test_rows_of_padding_are_dropped_where_the_processor_marks_them(self):
        numbers = np.arange(1, 25).reshape(1, 4, 6)
        padded = np.concatenate([numbers, np.zeros((1, 3, 6), int)], axis=1)
        for mark in (-1, 0):
            others = {"positions": np.full((1, 7, 2), mark), "sizes": np.array([[2, 2]])}
            others["positions"][:, :4] = 5
            got, kept = processors.without_padding(padded, others, 24)
            np.testing.assert_array_equal(got, numbers)
            self.assertEqual((kept["positions"].shape, kept["sizes"].tolist()), ((1, 4, 2), [[2, 2]]))
        unmarked = {"positions": np.full((1, 7, 2), 5)}
        self.assertEqual(processors.without_padding(padded, unmarked, 24)[0].shape, padded.shape)
        self.assertEqual(processors.without_padding(padded + 1, others, 24)[0].shape, padded.shape)

    def test_pixels_of_several_pictures_are_joined_as_the_processor_does(self):
        def beside(pictures, **options):
            return {"pixel_values": np.zeros((1, 3, 8, 8 * len(pictures)))}

        def below(pictures, **options):
            return {"pixel_values": np.zeros((4 * len(pictures), 48))}
        self.assertEqual(processors.joined_along(beside, 8, 8), 3)
        self.assertEqual(processors.joined_along(below, 8, 8), 0)
        picture = one_size.Picture(8, 8, lambda pixels: pixels[None], along=3)
        self.assertEqual(picture.arguments(2)["pixel_values"].shape, (1, 3, 8, 16))

    def test_rows_of_patches_by_the_processors_own_function(self):
        from transformers.models.fuyu.image_processing_pil_fuyu import FuyuImageProcessorPil
        found = processors.rows_by(FuyuImageProcessorPil(), 16, 24, 8)
        places = torch.arange(3 * 16 * 24).reshape(3, 16, 24)
        wanted = places.reshape(3, 2, 8, 3, 8).permute(1, 3, 2, 4, 0).reshape(1, 6, 192)
        torch.testing.assert_close(found(places), wanted)
        self.assertIsNone(processors.rows_by(object(), 16, 24, 8))

    def test_patches_are_where_the_model_derives_them_to_be(self):
        from transformers import vision_utils
        self.module.get_vision_position_ids = vision_utils.get_vision_position_ids
        model = types.SimpleNamespace(config=types.SimpleNamespace(patch_size=4, sub_configs={}))
        for merge in (1, 2):
            def features(pixel_values, image_grid_thw):
                return self.module.get_vision_position_ids(image_grid_thw, merge)
            for order in (1, 2):
                convert = arrangement.usual_arrangement(16, 24, 4, order, 1)
                picture = one_size.Picture(16, 24, convert, dict(image_grid_thw=torch.tensor([[1, 4, 6]])))
                self.assertEqual(candidates.agrees(model, features, picture), order == merge)

    def test_decoders_of_models_with_pictures_take_text(self):
        class Decoder:
            input_modalities = ("image", "text")
            base_model = None
            config = types.SimpleNamespace(sub_configs={}, get_text_config=lambda: types.SimpleNamespace(vocab_size=9))

            def forward(self, input_ids, attention_mask):
                pass
        decoder = Decoder()
        find, = probing.candidates(decoder)
        self.assertIsNone(find().token)
        vision = types.SimpleNamespace(sub_configs={})
        decoder.config = types.SimpleNamespace(sub_configs={"vision_config": None}, vision_config=vision)
        with self.assertRaisesRegex(ExportError, "takes pictures, but not as pixel_values"):
            probing.candidates(decoder)

    def test_text_is_drawn_from_ids_that_no_field_names(self):
        text = types.SimpleNamespace(sub_configs={}, vocab_size=40, eos_token_id=[7, 9], hidden_size=12)
        config = types.SimpleNamespace(sub_configs={"text_config": None}, text_config=text, video_token_index=4, get_text_config=lambda: text)
        self.assertEqual(samples.plain_words(config), [3, 5, 6, 8, *range(10, 40)])
        facts = samples.Facts(token=5, count=2, layout=samples.Layout(8, 8), config=config)
        ids = facts.rows([1, 0], length=400)["input_ids"]
        self.assertEqual(set(ids.flatten().tolist()), {3, 5, 6, 8, *range(10, 40)})
        self.assertEqual(int((ids == 5).sum()), 2)
        text.vocab_size = 3
        self.assertEqual(samples.plain_words(config), [0, 1, 2])

    def test_features_that_only_layers_take_are_counted(self):
        levels = [(0, [torch.zeros(5, 8), torch.zeros(5, 8)]), (3, [torch.zeros(5, 8)])]
        rows = probing.rows_in(types.SimpleNamespace(pooler_output=None, last_hidden_state=None, deepstack_features=levels))
        self.assertEqual(sum(len(part) for part in rows), 10)
        features = one_size.Features(deepstack_features=levels)
        self.assertIs(features.deepstack_features, levels)
        self.assertIsNone(features.router_logits)

    def test_derivation_is_transformers(self):
        from transformers import vision_utils
        pictures_, merge = [(2, 3), (5, 1), (4, 4)], 2
        grid = torch.tensor([[1, rows * merge, columns * merge] for rows, columns in pictures_])
        got = derivation.derived(pictures_, merge, window_units=2, table=derivation.Table(7))
        self.assertTrue(torch.equal(got["image_position_ids"], vision_utils.get_vision_position_ids(grid, merge)))
        index, borders = vision_utils.get_vision_window_index(grid, merge, 2 * merge * 14, 14)
        self.assertTrue(torch.equal(got["image_window_index"], index))
        self.assertTrue(torch.equal(got["image_window_ids"], grids.ids_of(borders)))
        self.assertTrue(torch.equal(got["image_segment_ids"], grids.ids_of(vision_utils.get_vision_cu_seqlens(grid))))
        indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(grid, 7, align_corners=True, spatial_merge_size=merge)
        self.assertTrue(torch.equal(got["image_interp_indices"], indices))
        self.assertTrue(torch.equal(got["image_interp_weights"], weights))
        for mode, corners in (("bicubic", False), ("bicubic", True), ("bilinear", False)):
            got = derivation.taps(pictures_, merge, derivation.Table(5, mode, corners))
            wanted = vision_utils.get_vision_interpolation_indices_and_weights(grid, 5, mode, corners, merge)
            self.assertTrue(all(map(torch.equal, got, wanted)), (mode, corners))


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
