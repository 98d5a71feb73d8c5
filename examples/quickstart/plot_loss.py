#!/usr/bin/env python3
"""Draws the loss of a run's log as an SVG; needs nothing but Python.

    python3 plot_loss.py run.jsonl loss.svg
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 420, 70, 20, 40, 50


def read(path):
    """[(step, loss)], in order; a resumed run repeats no step."""
    points = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                points[int(entry["step"])] = float(entry["loss"])
            except (ValueError, KeyError) as error:
                sys.exit(f"plot_loss.py: {path}:{number}: {error}")
    if not points:
        sys.exit(f"plot_loss.py: {path}: no step in it")
    return sorted(points.items())


def smooth(points, share=0.95):
    """Running mean with a memory of about 20 steps, unbiased at the start."""
    total = weight = 0.0
    for step, loss in points:
        total = share * total + (1 - share) * loss
        weight = share * weight + (1 - share)
        yield step, total / weight


def draw(points):
    positive = [loss for _, loss in points if loss > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)

    def x(step):
        return LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(loss):
        share = (math.log10(max(loss, 10.0 ** low)) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def line(path, color, width):
        text = " ".join(f"{x(s):.1f},{y(l):.1f}" for s, l in path)
        return f'<polyline fill="none" stroke="{color}" stroke-width="{width}" points="{text}"/>'

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
           'font-size="13">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="24" font-size="16">Loss per label token (log scale)</text>']
    for power in range(low, high + 1):
        for factor in (1, 2, 5) if power < high else (1,):
            value = factor * 10.0 ** power
            shade = "#bbb" if factor == 1 else "#eee"
            out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
                       f'stroke="{shade}"/>')
            out.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for i in range(6):
        step = round(first + (last - first) * i / 5)
        out.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">step</text>')
    out.append(line(points, "#9ecae1", 1))
    out.append(line(list(smooth(points)), "#08519c", 2))
    step, loss = points[-1]
    out.append(f'<text x="{WIDTH - RIGHT}" y="24" text-anchor="end">step {step}: {loss:.4g}</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    text = draw(read(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
