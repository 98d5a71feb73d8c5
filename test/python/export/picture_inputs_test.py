#!/usr/bin/env python3
"""How pictures reach a model: found by probing model and processor, and derived from the sizes of pictures."""
import types
import unittest

from made_up_module import MadeUpModule, Traced  # and where the exporter is

import numpy as np
import torch
from exporter import samples
from exporter.constructs import batching
from exporter.pictures import arrangement, candidates, derivation, grids, one_size, probing, processors
from exporter.errors import ExportError


class Pictures(MadeUpModule):
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


if __name__ == "__main__":
    unittest.main()
