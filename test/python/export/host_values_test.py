#!/usr/bin/env python3
"""What follows from the sizes of pictures is known while a model is traced: loops over them, masks, places in tables."""
import unittest
from unittest import mock

from made_up_module import MadeUpModule, Traced  # and where the exporter is

import torch
from exporter.constructs import batching, host_values
from exporter.pictures import derivation, grids
from exporter.constructs.host_values import HostValues
from exporter.errors import ExportError


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


if __name__ == "__main__":
    unittest.main()
