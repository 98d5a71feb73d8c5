"""What omnibal-run derives from the sizes of pictures (runtime/data/pictures/PictureInputs.cpp), to find out whether a model
derives the same."""
import collections

import torch

# A learned table of positions, side x side, and how it is resampled to the patches of a picture: "bilinear" or "bicubic",
# with the patches at the corners on the table's corners or half a patch inside. Beyond the table is its border.
Table = collections.namedtuple("Table", "side interpolation align_corners", defaults=("bilinear", True))
TAPS = {"bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}  # entries of an axis around a place


def each_patch(rows, columns, merge):
    """Row and column of each patch of a picture of so many units: unit after unit, row by row within a unit."""
    return [(unit_row * merge + r, unit_column * merge + c) for unit_row in range(rows) for unit_column in range(columns)
            for r in range(merge) for c in range(merge)]


def window_order(pictures, side):
    """Units in window order and the number of the window of each."""
    order, numbers, first, window = [], [], 0, 0
    for rows, columns in pictures:
        for top in range(0, rows, side):
            for left in range(0, columns, side):
                units = [first + row * columns + column for row in range(top, min(top + side, rows))
                         for column in range(left, min(left + side, columns))]
                order += units
                numbers += [window] * len(units)
                window += 1
        first += rows * columns
    return torch.tensor(order), torch.tensor(numbers)


def tap_weights(distance, interpolation):
    """The hat function, or Keys' cubic convolution with a = -3/4. Another order of operations gives other bits."""
    if interpolation == "bilinear":
        return (1 - distance).clamp(min=0)
    a = -0.75
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, far)


def axis_taps(size, table):
    """The entries of a table's axis around each patch, and their weights."""
    at, side = torch.arange(size, dtype=torch.float32), table.side
    source = at * (side - 1) / max(size - 1, 1) if table.align_corners else (at + 0.5) * side / size - 0.5
    floor, offsets = source.floor(), torch.tensor(TAPS[table.interpolation])
    distance = (source[:, None] - floor[:, None] - offsets).abs()
    return (floor.long()[:, None] + offsets).clamp(0, side - 1), tap_weights(distance, table.interpolation)


def taps(pictures, merge, table):
    indices, weights = [], []
    for rows, columns in pictures:
        (row_at, row_weight), (column_at, column_weight) = (axis_taps(n * merge, table) for n in (rows, columns))
        for row, column in each_patch(rows, columns, merge):
            indices.append((row_at[row][:, None] * table.side + column_at[column][None]).flatten())
            weights.append((row_weight[row][:, None] * column_weight[column][None]).flatten())
    return torch.stack(indices), torch.stack(weights)


def derived(pictures, merge, window_units=0, table=None):
    """{graph input: value} of a row of pictures, each given by its units (rows, columns)."""
    patches = [each_patch(rows, columns, merge) for rows, columns in pictures]
    result = {"image_position_ids": torch.tensor([place for picture in patches for place in picture]),
              "image_segment_ids": torch.tensor([number for number, picture in enumerate(patches) for _ in picture])}
    if window_units:
        order, numbers = window_order(pictures, window_units)
        result.update(image_window_index=order, image_window_inverse=torch.argsort(order),
                      image_window_ids=numbers.repeat_interleave(merge ** 2))
    if table:
        result["image_interp_indices"], result["image_interp_weights"] = taps(pictures, merge, table)
    return result


def token_positions(ids, mask, token, pictures):
    """Positions along time, rows and columns of one row of tokens; 0 where the mask is."""
    places, position, pictures, at = [], 0, list(pictures), 0
    kept = ids[mask.bool()].tolist()
    while at < len(kept):
        if kept[at] != token or not pictures:
            places.append((position,) * 3)
            position, at = position + 1, at + 1
            continue
        rows, columns = pictures.pop(0)
        places += [(position, position + r, position + c) for r in range(rows) for c in range(columns)]
        position, at = position + max(rows, columns), at + rows * columns
    result = torch.zeros(3, len(ids), dtype=torch.int64)
    result[:, mask.bool()] = torch.tensor(places).T
    return result
