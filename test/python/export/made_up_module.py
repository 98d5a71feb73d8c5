"""A module of Transformers that is made up, with code of the kinds that the exporter replaces while it traces."""
import os
import sys
import types
import unittest

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))

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
