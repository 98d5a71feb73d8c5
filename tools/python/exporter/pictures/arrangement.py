"""How a picture's pixels become the patches that a model takes: the order in which they are read, found out by asking the
model's own image processor about a picture that numbers its pixels."""


class Arrangement:
    """Nested loops over the values [3, height, width] of a picture, outermost first: (how often, step). A step of 0
    repeats. `shape` is that of the result."""

    def __init__(self, loops, shape):
        self.loops, self.shape = loops, tuple(shape)

    def __call__(self, picture):
        """Rearranges one traced picture by operations that every graph has."""
        import torch
        moving = sorted((loop for loop in enumerate(self.loops) if loop[1][1]), key=lambda loop: -loop[1][1])
        value = picture.reshape([count for _, (count, _) in moving])
        places = [place for place, _ in moving]
        value = value.permute([places.index(place) for place in sorted(places)])
        repeats = [(place, count) for place, (count, step) in enumerate(self.loops) if step == 0]
        for number, (place, count) in enumerate(repeats):
            # Along what is read next: programs move at most eight dimensions.
            value = torch.cat([value] * count, dim=place - number)
        return value.reshape(self.shape)


def loops_of(numbers):
    """The loops that read these places one after another, or None where there are none that a reshape, a transpose and a
    repetition could do."""
    loops = []
    while len(numbers) > 1:
        step = int(numbers[1] - numbers[0])
        breaks = (numbers[1:] - numbers[:-1] != step).nonzero()[0]
        count = int(breaks[0]) + 1 if len(breaks) else len(numbers)
        if len(numbers) % count:
            return None
        rows = numbers.reshape(-1, count)
        if step < 0 or (rows[:, 1:] - rows[:, :-1] != step).any():
            return None
        loops.insert(0, (count, step))
        numbers = rows[:, 0]
    return loops


def complete(loops, size):
    """Whether the loops that move read every place once."""
    expected = 1
    for count, step in sorted((loop for loop in loops if loop[1]), key=lambda loop: loop[1]):
        if step != expected:
            return False
        expected *= count
    return expected == size


def arrangement_of(places, height, width):
    """The Arrangement that gives an array of places in [3, height, width], or None."""
    if not len(places.reshape(-1)) or int(places.reshape(-1)[0]) != 0:
        return None
    loops = loops_of(places.reshape(-1))
    if loops is None or not complete(loops, 3 * height * width) or loops[-1][1] == 0:
        return None
    return Arrangement(loops, places.shape)


def usual_arrangement(height, width, patch, merge, copies):
    """Patches unit after unit, within a unit row by row, a patch's values by channel, copy, row and column."""
    rows, columns, side = height // patch // merge, width // patch // merge, patch * merge
    loops = [(rows, side * width), (columns, side), (merge, patch * width), (merge, patch), (3, height * width), (copies, 0),
             (patch, width), (patch, 1)]
    loops = [(count, step) for count, step in loops if count > 1]
    return Arrangement(loops, (rows * columns * merge ** 2, 3 * copies * patch ** 2))
