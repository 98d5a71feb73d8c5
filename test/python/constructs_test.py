#!/usr/bin/env python3
"""The constructs of Python and PyTorch that are replaced while a model is traced: each in a small module of its own, so
that the next family with the same construct works. What is traced is run on other numbers of pictures."""
import os
import sys
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))

import torch
from exporter import grids, tracing

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
"""


class Traced(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Constructs(unittest.TestCase):
    def setUp(self):
        self.name = "transformers.models.made_up.modeling_made_up"
        self.module = types.ModuleType(self.name)
        sys.modules[self.name] = self.module
        self.addCleanup(sys.modules.pop, self.name)
        exec(CODE, vars(self.module))

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

    def test_attention_in_segments(self):
        lengths = [3, 1, 4]
        query, key, value = (torch.randn(1, 4, 8, 6) for _ in range(3))
        borders = torch.tensor([0, 3, 4, 8])
        self.assertEqual(grids.ids_of(borders).tolist(), [0, 0, 0, 1, 2, 2, 2, 2])
        got, _ = grids.attend_in_segments(None, query, key[:, :2], value[:, :2], scaling=0.3, cu_seq_lens_q=grids.ids_of(borders))
        parts = zip(*(t.split(lengths, dim=2) for t in (query, key[:, :2].repeat_interleave(2, 1), value[:, :2].repeat_interleave(2, 1))))
        wanted = torch.cat([torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3) for q, k, v in parts], dim=2)
        torch.testing.assert_close(got, wanted.transpose(1, 2))


if __name__ == "__main__":
    unittest.main()
