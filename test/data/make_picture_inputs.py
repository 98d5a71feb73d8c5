#!/usr/bin/env python3
"""Writes pictures/inputs.safetensors: what Transformers' own functions make of pictures' sizes.

    python make_picture_inputs.py        (needs torch, transformers 5.23, safetensors)

Case K has K.grid (patch, merge, temporal, window in pixels, side of the table of positions, 1 where that is resampled by
cubic interpolation, 1 where corners lie on corners), K.pictures
([pictures, 2], sizes in units), K.input_ids (two samples of text and pictures, id 4 is the image token),
K.samples (first token of each sample, then the end), and the results under the names of docs/program.md.
"""
import os
import types

import torch
from safetensors.torch import save_file
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.vision_utils import (get_vision_cu_seqlens, get_vision_interpolation_indices_and_weights,
                                       get_vision_position_ids, get_vision_window_index)

IMAGE = 4
GRIDS = [(4, 2, 2, 16, 0, 0, 1), (14, 2, 2, 112, 48, 0, 1), (16, 2, 2, 0, 7, 0, 1), (14, 1, 1, 0, 27, 0, 1),
         (14, 3, 2, 130, 1, 0, 1), (14, 2, 2, 0, 24, 1, 0), (16, 1, 1, 0, 5, 1, 1), (14, 3, 1, 0, 9, 0, 0)]
PICTURES = [(1, 1), (2, 5), (4, 4), (5, 3), (1, 6), (7, 2)]


def positions(rows):
    """Positions of the tokens by the model's own function, each row of token ids being a sample."""
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=1, tokens_per_second=1))
    model = types.SimpleNamespace(config=config, get_vision_position_ids=Qwen2_5_VLModel.get_vision_position_ids)
    model.get_vision_position_ids = types.MethodType(Qwen2_5_VLModel.get_vision_position_ids, model)
    out = []
    for ids, sizes in rows:
        kinds = torch.tensor([[int(i == IMAGE) for i in ids]])
        thw = torch.tensor([[1, h, w] for h, w in sizes])
        out.append(Qwen2_5_VLModel.get_rope_index(model, torch.tensor([ids]), kinds, image_grid_thw=thw)[0][:, 0])
    return torch.cat(out, 1)


def case(number, grid):
    patch, merge, _, window, side, cubic, corners = grid
    sizes = PICTURES[number % 2:] + PICTURES[:number % 2]
    thw = torch.tensor([[1, h * merge, w * merge] for h, w in sizes])
    cut = 2 + number % 3
    rows = []
    for part in (sizes[:cut], sizes[cut:]):
        ids = [1, 7]
        for h, w in part:
            ids += [5] + [IMAGE] * (h * w) + [6, 9]
        rows.append((ids, part))
    result = {
        "grid": torch.tensor(grid), "pictures": torch.tensor(sizes),
        "input_ids": torch.tensor(rows[0][0] + rows[1][0]),
        "samples": torch.tensor([0, len(rows[0][0]), len(rows[0][0]) + len(rows[1][0])]),
        "position_ids": positions(rows),
        "image_position_ids": get_vision_position_ids(thw, merge),
        "image_segment_cu_seqlens": get_vision_cu_seqlens(thw),
    }
    if window:
        index, borders = get_vision_window_index(thw, merge, window, patch)
        result.update(image_window_index=index, image_window_inverse=torch.argsort(index), image_window_cu_seqlens=borders)
    if side:
        indices, weights = get_vision_interpolation_indices_and_weights(
            thw, side, mode="bicubic" if cubic else "bilinear", align_corners=bool(corners), spatial_merge_size=merge)
        result.update(image_interp_indices=indices, image_interp_weights=weights)
    return {f"{number}.{name}": (value if value.is_floating_point() else value.to(torch.int32)).contiguous()
            for name, value in result.items()}


here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
os.makedirs(here, exist_ok=True)
tensors = {}
for k, g in enumerate(GRIDS):
    tensors.update(case(k, g))
save_file(tensors, os.path.join(here, "inputs.safetensors"))
