"""How pictures of one size might reach a model: tried one after another until its vision part takes one."""
import itertools

from exporter.pictures import processors
from exporter.pictures.arrangement import Arrangement, usual_arrangement
from exporter.pictures.grids import derived_values, number
from exporter.pictures.one_size import Picture

ASSUMED = " in patches (no image processor is there to ask for their order)"
# Arguments that models take beside patches.
OF_PATCHES = {"image_grid_thw", "spatial_shapes", "target_sizes", "image_position_ids"}
# Tiles of a picture that are tried.
TILES = 12
# Sides that are tried where a configuration names none, in units.
SIDES = (4, 2, 8, 16)


def units(config):
    """Pixels of a patch's side, patches of a unit's side, copies of a still picture."""
    patch = number(config, ("patch_size", "encoder_patch_size"), 14)
    merge = number(config, ("spatial_merge_size", "merge_size", "merge_kernel_size", "pooling_kernel_size"), 1)
    return patch, merge, number(config, ("temporal_patch_size", "patch_temporal"), 1)


def in_patches(config, takes, sizes, folder):
    """Pictures as rows of patches."""
    import torch
    processor = processors.image_processor(config, folder)
    patch, merge, copies = units(config)
    side = patch * merge
    sizes = [s for s in sizes if s[0] % side == 0 and s[1] % side == 0] + [(n * side, n * side) for n in SIDES]
    for height, width in sizes:
        found = processors.arrangement_by(processor, height, width) if processor else None
        if found:
            constants = {n: torch.from_numpy(v) for n, v in found[1].items() if n in takes and v.dtype != object}
            yield Picture(height, width, found[0], constants, " in patches", along=processors.joined_along(processor, height, width))
    if processor is None:
        yield from assumed(config, takes, sizes)


def channels_last(height, width, side):
    """Patches in reading order, [1, patches, values], a patch's values by row, column and channel."""
    rows, columns = height // side, width // side
    loops = [(rows, side * width), (columns, side), (side, width), (side, 1), (3, height * width)]
    return Arrangement(loops, (1, rows * columns, 3 * side ** 2))


def assumed(config, takes, sizes):
    """Pictures in patches where no image processor can be asked: Qwen2-VL's order or reading order, SigLIP 2's where the
    number of patches is a dimension of its own (patches or units of them), and patches as pictures beside each other."""
    import torch
    patch, merge, copies = units(config)
    for height, width in sizes:
        rows, columns = height // patch, width // patch
        if "image_grid_thw" in takes:
            grid = {"image_grid_thw": torch.tensor([[1, rows, columns]])}
            for times, side in itertools.product(dict.fromkeys((copies, 1)), dict.fromkeys((merge, 1))):
                yield Picture(height, width, usual_arrangement(height, width, patch, side, times), grid, ASSUMED)
            reading = usual_arrangement(height, width, patch, 1, 1)
            yield Picture(height, width, Arrangement(reading.loops, (rows * columns, 3, patch, patch)), grid, ASSUMED)
        if "spatial_shapes" in takes:
            constants = {"spatial_shapes": torch.tensor([[rows, columns]])}
            if "pixel_attention_mask" in takes:
                constants["pixel_attention_mask"] = torch.ones(1, rows * columns, dtype=torch.int64)
            yield Picture(height, width, channels_last(height, width, patch), constants, ASSUMED)
        if "image_position_ids" in takes:
            for side in dict.fromkeys((patch, patch * merge)):
                places = torch.cartesian_prod(torch.arange(height // side), torch.arange(width // side)).flip(-1)
                yield Picture(height, width, channels_last(height, width, side), {"image_position_ids": places[None]}, ASSUMED)
        if "target_sizes" in takes:
            loops = [(3, height * width), (patch, width), (rows, patch * width), (columns, patch), (patch, 1)]
            constants = {"target_sizes": torch.tensor([[rows, columns]])}
            yield Picture(height, width, Arrangement(loops, (1, 3, patch, rows * columns * patch)), constants, ASSUMED, along=3)


def below_each_other(tiles, height):
    """[3, tiles * height, width] to [1, tiles, 3, height, width]."""
    return lambda pixels: pixels.reshape(3, tiles, height, pixels.shape[-1]).transpose(0, 1)[None]


def whole_sizes(config, sizes):
    """Sizes of the whole pictures that become tiles of one size."""
    pinpoints = getattr(config, "image_grid_pinpoints", None) or []
    return list(dict.fromkeys([*(tuple(p) for p in pinpoints), *sizes]))


def in_tiles(config, sizes, count):
    """Pictures that the processor cuts into tiles, with the size of the whole picture. Models ignore tiles beyond those
    that the size asks for: the number is the smallest that makes as many tokens as more would."""
    import torch
    for height, width in sizes:
        for whole in whole_sizes(config, sizes)[:6]:
            def picture(tiles, height=height, width=width, whole=whole):
                return Picture(tiles * height, width, below_each_other(tiles, height), {"image_sizes": torch.tensor([whole])},
                               f": {tiles} tiles of {width} x {height} of a picture of {whole[1]} x {whole[0]}", tiles, whole)
            most = count(picture(TILES))
            for tiles in range(1, TILES):
                if most and count(picture(tiles)) == most:
                    yield picture(tiles)
                    break


def in_rows(config, sizes, folder):
    """Pictures as rows of patches where nothing else is given."""
    processor = processors.image_processor(config, folder)
    patch = units(config)[0]
    for height, width in sizes:
        found = height % patch == 0 and width % patch == 0 and processors.rows_by(processor, height, width, patch)
        if found:
            yield Picture(height, width, found, {}, " in patches")


def plain(takes, sizes):
    import torch
    for height, width in sizes:
        constants = {"image_sizes": torch.tensor([[height, width]])} if "image_sizes" in takes else {}
        yield Picture(height, width, lambda pixels: pixels[None], constants)
        if "pixel_attention_mask" in takes:
            of_pixels = {"pixel_attention_mask": torch.ones(1, 1, height, width, dtype=torch.int64)}
            of_tiles = {"pixel_attention_mask": torch.ones(1, 1, dtype=torch.bool)}
            for mask in (of_pixels, of_tiles):
                yield Picture(height, width, lambda pixels: pixels[None, None], {**constants, **mask})
        else:
            yield Picture(height, width, lambda pixels: pixels[None, None], constants)


class Derived(Exception):
    """The places of patches that a model derives; the rest of its work is not done."""


def derived_places(features, picture):
    """Rows and columns of a picture's patches as the model derives them, or None."""
    import torch

    def replacement(name, original):
        def call(*arguments, **options):
            result = original(*arguments, **options)
            if name == "get_vision_position_ids":
                raise Derived(result)
            return result
        return call
    try:
        with torch.no_grad(), derived_values(replacement):
            features(**picture.arguments(1))
    except Derived as found:
        return found.args[0][:, -2:]
    except Exception:  # the picture is not taken, for whatever reason
        pass
    return None


def agrees(model, features, picture):
    """Whether the model has the patches of a picture where it derives them to be; so, too, where it derives no places."""
    import torch
    derived = derived_places(features, picture)
    if derived is None:
        return True
    height, width = picture.height, picture.width
    places = picture.convert(torch.arange(3 * height * width).reshape(3, height, width))
    first = places.reshape(len(places), -1)[:, 0] % (height * width)
    side = units(model.config)[0]
    return torch.equal(derived.to(first.dtype), torch.stack([first // width // side, first % width // side], dim=1))


def picture_layouts(config, takes, sizes, folder, count):
    """Pictures to try; `count` gives how many tokens one makes, or None."""
    if takes & OF_PATCHES:
        yield from in_patches(config, takes, sizes, folder)
        return
    if "image_sizes" in takes and getattr(config, "image_grid_pinpoints", None):
        yield from in_tiles(config, sizes, count)
        return
    yield from plain(takes, sizes)
    yield from in_rows(config, sizes, folder)
