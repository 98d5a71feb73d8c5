"""What a model's image processor makes of a picture, in the words of omnibal-run: omnibal.original_pictures of
preprocessor_config.json (docs/data.md). Nothing is believed of a processor: it must give the same pixels for made-up
pictures as its description does here."""
import math

NAMES = {1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
FILTERS = {name: number for number, name in NAMES.items()}
# Before they are split, pictures are never larger than that.
LONGEST_SPLIT = 4096
# What omnibal-run takes (runtime/data/pictures).
MOST_SIDE, MOST_TILES, MOST_PIXELS = 8192, 1024, 64_000_000
# Width and height: wide, high, square, small, far larger than a tile, and nearly square.
PROBES = [(97, 61), (61, 97), (333, 47), (47, 333), (28, 28), (7, 9), (900, 640), (640, 900), (512, 511), (1300, 330)]


def describe(images, tiles_of, crop):
    """The description of a processor, or None where omnibal-run cannot do what it does.

    images: the image processor; tiles_of(picture): its tiles as arrays [height, width, 3], not normalized;
    crop: True, False or None, as --crop says.
    """
    probes = [probe(number, *size) for number, size in enumerate(PROBES)]
    wanted = [given(tiles_of, picture) for picture in probes]
    for kind in candidates(images, crop):
        if fits(kind) and all(same(kind, picture, tiles) for picture, tiles in zip(probes, wanted)):
            return kind
    return None


def fits(kind):
    """Whether omnibal-run takes the numbers."""
    sides = [kind.get(name, 1) for name in ("height", "width", "edge", "longest_edge", "tile", "factor")]
    return all(1 <= side <= MOST_SIDE for side in sides) and kind.get("max_tiles", 1) <= MOST_TILES


def probe(number, width, height):
    import numpy as np
    from PIL import Image
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8))


def given(tiles_of, picture):
    """The tiles; None where the processor refuses the picture."""
    try:
        return tiles_of(picture)
    except ValueError:
        return None


def same(kind, picture, tiles):
    import numpy as np
    try:
        ours = tiles_by(kind, picture)
    except ValueError:
        return tiles is None
    return tiles is not None and len(ours) == len(tiles) and all(np.array_equal(a, b) for a, b in zip(ours, tiles))


def candidates(images, crop):
    """Descriptions that the processor's settings suggest."""
    if not getattr(images, "do_resize", True):
        return
    size, name = plain(getattr(images, "size", None)), NAMES.get(getattr(images, "resample", None))
    how = dict(resample=name, order=pass_order())
    if name is None:
        return
    if "height" in size and "width" in size:
        tile = dict(height=size["height"], width=size["width"])
        yield dict(kind="fixed", **tile, **how)
        limits = [getattr(images, limit, None) for limit in ("min_patches", "max_patches")]
        if crop is not False and all(limits):
            yield dict(kind="tiles", **tile, min_tiles=limits[0], max_tiles=limits[1], **how)
    cut = plain(getattr(images, "crop_size", None))
    if "shortest_edge" in size and "height" in cut:
        yield dict(kind="shortest_edge", edge=size["shortest_edge"], height=cut["height"], width=cut["width"], **how)
    tile = plain(getattr(images, "max_image_size", None))
    if "longest_edge" in size and "longest_edge" in tile:
        split = bool(getattr(images, "do_image_splitting", True))
        yield dict(kind="splits", longest_edge=size["longest_edge"], tile=tile["longest_edge"], split=split, **how)
    patch, merge = getattr(images, "patch_size", None), getattr(images, "merge_size", None)
    if "shortest_edge" in size and "longest_edge" in size and patch and merge:
        for copies in {1, getattr(images, "temporal_patch_size", 1)}:  # some count the copies of a still picture
            yield dict(kind="units", factor=side(patch) * merge, min_pixels=max(1, size["shortest_edge"] // copies),
                       max_pixels=min(MOST_PIXELS, size["longest_edge"] // copies), **how)


def plain(size):
    """A size as a dictionary of what is set in it."""
    if size is None:
        return {}
    items = size.items() if hasattr(size, "items") else vars(size).items()
    return {name: value for name, value in items if value is not None}


def side(patch):
    return int(patch["height"] if isinstance(patch, dict) else patch)


def pass_order():
    """Which axis this Pillow resizes first: rows always, or, from version 13 on, columns where many rows are lost."""
    import numpy as np
    from PIL import Image
    picture = probe(0, 40, 90)
    once = np.asarray(picture.resize((44, 30), Image.Resampling.BICUBIC))
    rows = picture.resize((44, 90), Image.Resampling.BICUBIC).resize((44, 30), Image.Resampling.BICUBIC)
    return "rows" if np.array_equal(once, np.asarray(rows)) else "auto"


# ------------------------------------------------------------------------------------------------ what becomes of it
def layout(kind, width, height):
    """(sizes that the picture is resized to, one after the other, tiles' height and width, rows, columns, whether there
    is a picture of all of it behind them); sizes are (height, width)."""
    if max(width, height) > 200 * min(width, height):
        raise ValueError(f"{width} x {height} pixels; no side may be more than 200 times the other")
    return globals()["layout_" + kind["kind"]](kind, width, height)


def layout_fixed(kind, width, height):
    tile = kind["height"], kind["width"]
    return [tile], tile, 1, 1, False


def layout_shortest_edge(kind, width, height):
    short, edge = min(width, height), kind["edge"]
    sides = tuple(edge if pixels == short else int(edge * pixels / short) for pixels in (height, width))
    return [sides], (kind["height"], kind["width"]), 1, 1, False


def layout_tiles(kind, width, height):
    grids = [(columns, rows) for columns in range(1, kind["max_tiles"] + 1) for rows in range(1, kind["max_tiles"] // columns + 1)
             if columns * rows >= kind["min_tiles"]]
    tile, aspect = (kind["height"], kind["width"]), width / height
    nearest = min(abs(aspect - columns / rows) for columns, rows in grids)
    equal = sorted((c * r, c, r) for c, r in grids if abs(aspect - c / r) == nearest)
    chosen = equal[0]
    for count, columns, rows in equal[1:]:  # the largest that the picture covers half of
        if width * height > 0.5 * tile[0] * tile[1] * count:
            chosen = count, columns, rows
    count, columns, rows = chosen
    return [(rows * tile[0], columns * tile[1])], tile, rows, columns, count > 1


def layout_splits(kind, width, height):
    tile, first = kind["tile"], first_size(kind["longest_edge"], width, height)
    if not kind["split"]:
        return [first, (tile, tile)], (tile, tile), 1, 1, False
    height, width = first
    aspect = width / height
    if width >= height:
        width = above(width, tile)
        height = above(int(width / aspect), tile)
    else:
        height = above(height, tile)
        width = above(int(height * aspect), tile)
    rows, columns = height // tile, width // tile
    return [first, (height, width)], (tile, tile), rows, columns, rows * columns > 1


def first_size(longest, width, height):
    """The longer side as given, the other even in the same ratio; then below what pictures may have."""
    aspect = width / height
    if width >= height:
        width, height = longest, int(longest / aspect)
        height = max(1, height + height % 2)
    else:
        height, width = longest, int(longest * aspect)
        width = max(1, width + width % 2)
    aspect = width / height
    if width >= height and width > LONGEST_SPLIT:
        width, height = LONGEST_SPLIT, int(LONGEST_SPLIT / aspect)
    elif height > width and height > LONGEST_SPLIT:
        height, width = LONGEST_SPLIT, int(LONGEST_SPLIT * aspect)
    return max(height, 1), max(width, 1)


def above(value, of):
    return math.ceil(value / of) * of


def layout_units(kind, width, height):
    factor, least, most = kind["factor"], kind["min_pixels"], kind["max_pixels"]
    size = [round(pixels / factor) * factor for pixels in (height, width)]
    if size[0] * size[1] > most:
        scale = math.sqrt(height * width / most)
        size = [max(factor, math.floor(pixels / scale / factor) * factor) for pixels in (height, width)]
    elif size[0] * size[1] < least:
        scale = math.sqrt(least / (height * width))
        size = [above(pixels * scale, factor) for pixels in (height, width)]
    return [tuple(size)], tuple(size), 1, 1, False


def shapes(kind, width, height):
    """(height, width) of each tile of a picture of that size."""
    sizes, tile, rows, columns, overview = layout(kind, width, height)
    if max(h * w for h, w in [(height, width), *sizes]) > MOST_PIXELS or rows * columns + overview > MOST_TILES:
        raise ValueError(f"{width} x {height} pixels; it, or what it is resized to, has more than {MOST_PIXELS} pixels or {MOST_TILES} tiles")
    return [tuple(tile)] * (rows * columns + overview)


def tiles_by(kind, picture):
    """The tiles of a picture, arrays [height, width, 3]."""
    import numpy as np
    sizes, tile, rows, columns, overview = layout(kind, *picture.size)
    canvas = picture
    for height, width in sizes:
        canvas = canvas.resize((width, height), FILTERS[kind["resample"]])
    pixels = np.asarray(canvas)
    top, left = (pixels.shape[0] - rows * tile[0]) // 2, (pixels.shape[1] - columns * tile[1]) // 2
    tiles = [pixels[top + r * tile[0]:top + (r + 1) * tile[0], left + c * tile[1]:left + (c + 1) * tile[1]]
             for r in range(rows) for c in range(columns)]
    if overview:
        whole = canvas if kind["kind"] == "splits" else picture
        tiles.append(np.asarray(whole.resize((tile[1], tile[0]), FILTERS[kind["resample"]])))
    return tiles
