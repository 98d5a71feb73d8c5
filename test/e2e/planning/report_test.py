#!/usr/bin/env python3
"""The reports of omnibal-plan and omnibal-compile in a real browser: what their pixels show is what the plan says.

    python3 test/e2e/planning/report_test.py build/bin test/data
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from browser import Browser  # noqa: E402

BIN, DATA = map(os.path.abspath, sys.argv[1:3])

# Of report.css, light and dark.
LIGHT = dict(page=0xffffff, bubble=0xe4e8ec, forward=0x3b6fd4, backward=0x2f9e62, recompute=0xe08a2e, weight=0xa98f14,
             activation=0x8250df, gradient=0xd6409f, reduction=0x6e5a4b, memory=0x7aa7e0, vision=0xc45b84, head=0x1f7a8c)
DARK = dict(page=0x0d1117, bubble=0x262d36, forward=0x5b8cf0, backward=0x3fb873)

# The place of each picture, and the units of its drawing.
PLACES = """const places = {};
for (const id of ['overview', 'detail', 'memory', 'stages', 'sample0', 'sample1', 'sample2']) {
  const svg = document.querySelector('#' + id + ' svg');
  if (!svg) continue;
  const box = svg.getBoundingClientRect();
  places[id] = {x: box.x, y: box.y, width: box.width, height: box.height, unit: box.width / svg.viewBox.baseVal.width};
}
places.shown = document.body.scrollHeight;
places.texts = [...document.querySelectorAll('#detail text.in')].map(t => t.textContent);
return places;"""
LEFT, PLOT = 62, 1160 - 62 - 12  # of report.js


def problem(ranks, microbatches, layers_a_rank=1, schedule="1f1b", replicas=1, link=1_000_000_000_000):
    """Forward 10 ms, recomputation 10, input gradient 10, weight gradient 10 each."""
    count = ranks * layers_a_rank
    kinds = ["vision"] + ["language"] * (count - 2) + ["head"]
    layers = [{"name": f"layer.{i}", "kind": kinds[i], "forward_ns": 10_000_000, "input_grad_ns": 10_000_000,
               "weight_grad_ns": 10_000_000, "param_bytes": 5_000_000_000, "grad_bytes": 1_000_000_000,
               "remat": [{"name": "keep", "saved_bytes": 2_000_000_000, "recompute_ns": 0, "workspace_bytes": 0},
                         {"name": "full", "saved_bytes": 1_000_000_000, "recompute_ns": 10_000_000, "workspace_bytes": 0}]}
              for i in range(count)]
    return {"schema": "omnibal.plan-problem/1", "layers": layers, "edges": [
                {"from": i, "to": i + 1, "bytes": 2_000_000, "grad_bytes": 2_000_000} for i in range(count - 1)],
            "cluster": {"stages": ranks, "memory_bytes": 12_000_000_000, "link": {"latency_ns": 0, "bytes_per_s": link},
                        "data_parallel": {"size": replicas, "latency_ns": 0, "bytes_per_s": 200_000_000_000}},
            "microbatches": microbatches, "schedule": schedule}


class ReportCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def report(self, problem, plan=None):
        """The page of the searched plan, or of one by hand."""
        for name, content in (("problem.json", problem), ("plan.json", plan)):
            with open(self.path(name), "w", encoding="utf-8") as file:
                json.dump(content, file)
        arguments = ["--check", self.path("problem.json"), self.path("plan.json")] if plan else [self.path("problem.json")]
        done = subprocess.run([os.path.join(BIN, "omnibal-plan"), *arguments, "--report", self.path("report.html")],
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertLess(len(page), 5_000_000)
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), r"https?://|src=|@import|url\(")
        return page

    def look(self, page, picture="detail", dark=False):
        """Looks at colors of one picture: a function of (time share, row, share of its height), and all counts."""
        places = Browser(self.folder.name).ask(page, PLACES)
        browser = Browser(self.folder.name, height=places["shown"] + 50, dark=dark)
        png, place = browser.picture(self.path("report.html")), places[picture]

        def colors(points, row_height):
            spots = [(place["x"] + place["unit"] * (LEFT + PLOT * t), place["y"] + place["unit"] * row_height * (row + part))
                     for t, row, part in points]
            return browser.pixels(png, spots)[1]
        return colors, browser.pixels(png)[0], places


class Report(ReportCase):
    def test_bars_are_where_the_plan_says(self):
        # F 10; B 20 where kept, 30 where recomputed (rank 0, which holds two micro-batches). Three micro-batches:
        #   rank 0  F0 F1        R B0 F2   R B1   R B2
        #   rank 1     F0 B0 F1 B1    F2 B2
        page = self.report(problem(2, 3), {"cuts": [0, 1, 2], "remat": ["full", "keep"]})
        colors, counts, places = self.look(page)
        with open(self.path("problem.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["microbatches"], 3)
        step = float(re.search(r"<b>([\d.]+) ms</b><span>predicted step", page).group(1))
        # rank 0: 0-10 F0, 10-20 F1, 40-50 R, 50-70 B0, 70-80 F2, 80-90 R, 90-110 B1, then F2 of rank 1 (at 80) and its
        # backward end at 110: R 110-120, B2 120-140 (messages take 2 us).
        self.assertAlmostEqual(step, 140, delta=0.1)
        expected = [(3, 0, "forward"), (13, 0, "forward"), (30, 0, "bubble"), (45, 0, "recompute"), (53, 0, "backward"),
                    (73, 0, "forward"), (85, 0, "recompute"), (93, 0, "backward"), (115, 0, "recompute"), (123, 0, "backward"),
                    (5, 1, "bubble"), (13, 1, "forward"), (23, 1, "backward"), (43, 1, "forward"), (53, 1, "backward"),
                    (75, 1, "bubble"), (83, 1, "forward"), (93, 1, "backward"), (125, 1, "bubble")]
        seen = colors([(t / step, row, 0.3) for t, row, _ in expected], 34)
        for (t, row, look), color in zip(expected, seen, strict=True):
            self.assertEqual(f"{color:06x}", f"{LIGHT[look]:06x}", f"{look} at {t} ms on rank {row}")
        self.assertEqual(sorted(places["texts"]), sorted("0120" "12012" "012"))
        for look in ("page", "memory", "vision", "head"):
            self.assertGreater(counts.get(LIGHT[look], 0), 500, look)

    def test_memory_against_its_limit(self):
        page = self.report(problem(2, 3), {"cuts": [0, 1, 2], "remat": ["full", "keep"]})
        colors, _, places = self.look(page, "memory")
        # Rank 0: 5 GB, 6 with one micro-batch, 7 from 10 to 70 ms, of at most 12 (drawn to 12.48); rows of 42.5, bars of 38.5.
        height, bar, labels = 42.5, 38.5, 250
        def spot(ms, row, gigabytes):
            return ms / 140 * (PLOT - labels) / PLOT, row, bar * (1 - gigabytes / 12.48) / height
        spots = [spot(40, 0, 6.4), spot(40, 0, 7.6), spot(5, 0, 5.4), spot(5, 0, 6.6), spot(100, 1, 6.4), spot(75, 1, 4.4),
                 spot(75, 1, 5.6)]
        seen = ["memory" if c == LIGHT["memory"] else "bubble" if c == LIGHT["bubble"] else hex(c) for c in colors(spots, height)]
        self.assertEqual(seen, ["memory", "bubble", "memory", "bubble", "memory", "memory", "bubble"])

    def test_split_backwards_chunks_transfers_and_reduction(self):
        # Two chunks a rank; messages of 20 ms; 2 replicas that reduce 2 GB a rank.
        given = problem(2, 2, layers_a_rank=2, schedule="auto", replicas=2, link=100_000_000)
        given["cluster"]["memory_bytes"] = 40_000_000_000
        actions = [[["F", 0, 0], ["F", 1, 0], ["F", 0, 2], ["F", 1, 2], ["I", 0, 2], ["I", 1, 2], ["W", 0, 2], ["W", 1, 2],
                    ["I", 0, 0], ["W", 0, 0], ["B", 1, 0]],
                   [["F", 0, 1], ["F", 1, 1], ["F", 0, 3], ["F", 1, 3], ["B", 0, 3], ["B", 1, 3], ["B", 0, 1], ["B", 1, 1]]]
        page = self.report(given, {"cuts": [0, 1, 2, 3, 4], "chunk_rank": [0, 1, 0, 1], "remat": ["keep"] * 4,
                                   "schedule": "auto", "actions": actions})
        _, counts, places = self.look(page)
        for look in ("forward", "backward", "weight", "activation", "gradient", "reduction"):
            self.assertGreater(counts.get(LIGHT[look], 0), 100, look)
        self.assertIn("0a", places["texts"])
        self.assertIn("1b", places["texts"])

    def test_dark_pages(self):
        page = self.report(problem(2, 3), {"cuts": [0, 1, 2], "remat": ["full", "keep"]})
        _, counts, _ = self.look(page, dark=True)
        self.assertNotIn(LIGHT["backward"], counts)
        for look, color in DARK.items():
            self.assertGreater(counts.get(color, 0), 500, look)

    def test_many_ranks_and_microbatches(self):
        page = self.report(self.roomy(64, 512))
        colors, counts, places = self.look(page, "overview")
        self.assertIn("detail", places)
        # Half-way through the step every rank works: forward below backward in its row.
        height = 14 * 0.6
        seen = colors([(0.5, row, part) for row in (5, 30, 60) for part in (0.55, 0.15)], height)
        for below, above in zip(seen[::2], seen[1::2]):
            self.assertNotEqual(below, above)
            self.assertNotIn(LIGHT["page"], (below, above))
        self.assertGreater(counts.get(LIGHT["forward"], 0), 5000)
        self.assertGreater(counts.get(LIGHT["backward"], 0), 5000)

    def roomy(self, ranks, microbatches):
        given = problem(ranks, microbatches)
        given["cluster"]["memory_bytes"] = 1_000_000_000_000
        given |= {"vary": {"cuts": False}, "given": {"cuts": list(range(ranks + 1))}}
        return given

    def test_steps_without_time_and_names_with_markup(self):
        given = problem(2, 2)
        for layer in given["layers"]:
            layer.update(name="<b>&\"'</script>", kind="\"<i>", forward_ns=0, input_grad_ns=0, weight_grad_ns=0, grad_bytes=0)
            layer["remat"] = [{"name": "keep", "saved_bytes": 0, "recompute_ns": 0, "workspace_bytes": 0}]
        for edge in given["edges"]:
            edge.update(bytes=0, grad_bytes=0)
        drawn = Browser(self.folder.name).ask(self.report(given), """return [...document.querySelectorAll('figure')].map(
            f => f.innerHTML).join('') + [...document.querySelectorAll('td')].map(c => c.textContent).join('|');""")
        self.assertNotRegex(drawn, "NaN|Infinity|undefined")
        self.assertIn("<b>&\"'</script>", drawn)

    def test_baselines_are_told(self):
        page = self.report(problem(2, 4, layers_a_rank=3) | {"cluster": problem(2, 4)["cluster"] | {"memory_bytes": 30_000_000_000}})
        rows = Browser(self.folder.name).ask(page, """return [...document.querySelectorAll('#baselines tr')].slice(1).map(
            row => [row.cells[0].textContent, row.cells[1].textContent, row.querySelector('.bar')?.getBoundingClientRect().width]);""")
        self.assertEqual([name for name, _, _ in rows], ["this plan", "equal-layers", "equal-parameters", "vision-first",
                                                         "profile-greedy", "bmp", "adapipe", "megatron"])
        ours = rows[0]
        others = [row for row in rows[1:] if row[1] != "none"]
        self.assertGreaterEqual(len(others), 2)
        for name, step, width in others:
            self.assertAlmostEqual(float(step) / float(ours[1]), width / ours[2], delta=0.02, msg=name)


class PlannedSteps(ReportCase):
    """The report of a program that plans every step, beside what other tools say of the same steps."""
    TILES, TOKENS, MICROBATCHES, STAGES = 12, 300, 4, 3 # so few micro-batches that some are divided

    def tool(self, name, *arguments):
        done = subprocess.run([os.path.join(BIN, name), *map(str, arguments)], capture_output=True, text=True, timeout=250)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def compile(self, *flags):
        self.tool("omnibal-compile", f"{DATA}/tiny-internvl/model.onnx", "--tiles", self.TILES, "--tokens", self.TOKENS, "--stages", self.STAGES,
                  "--microbatches", self.MICROBATCHES, "--data-parallel", 2, "-o", self.path("program"), *flags,
                  "--report", self.path("report.html"))
        with open(self.path("report.html"), encoding="utf-8") as file:
            return file.read()

    def write_batches(self, samples):
        """Batches of two replicas, and the loads of the first one's steps."""
        choose = random.Random(3)
        lengths = [(choose.choice((0, 0, choose.randint(1, 9))), choose.randint(10, 130)) for _ in range(samples)]
        with open(self.path("lengths.csv"), "w", encoding="utf-8") as file:
            file.write("vit_num,token_num\n" + "".join(f"{v},{n}\n" for v, n in lengths))
        self.tool("omnibal-batch", self.path("lengths.csv"), "--tiles", self.TILES, "--tokens", self.TOKENS, "--ranks", 2,
                  "--method", "random", "-o", self.path("batches"))
        arrays = []
        for name in ("samples.npy", "groups.npy"):
            with open(self.path(f"batches/{name}"), "rb") as file:
                data = file.read()
            begin = 10 + struct.unpack("<H", data[8:10])[0]
            arrays.append(struct.unpack(f"<{(len(data) - begin) // 8}q", data[begin:]))
        groups = [[lengths[i] for i in arrays[0][a:b]] for a, b in zip(arrays[1], arrays[1][1:])]
        steps = [groups[s:s + 2 * self.MICROBATCHES:2] for s in range(0, len(groups) - 2 * self.MICROBATCHES + 1, 2 * self.MICROBATCHES)]
        return [{"step": s, "microbatches": [{"tiles": sum(v for v, _ in g), "tokens": sum(n for _, n in g),
                                              "squares": sum(n * n for _, n in g), "labels": 0} for g in step]}
                for s, step in enumerate(steps)]

    def test_samples_are_planned_as_a_run_plans_them(self):
        steps = self.write_batches(600)
        self.assertGreater(len(steps), 16, "more steps than samples")
        page = self.compile("--schedule", "per-step", "--batches", self.path("batches"))
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), r"https?://|src=|@import|url\(")
        rows = Browser(self.folder.name).ask(page, """return [...document.querySelectorAll('#samples tr')].slice(1).map(
            row => [...row.cells].map(cell => cell.textContent));""")
        chosen = [steps[i * len(steps) // 16] for i in range(16)]
        with open(self.path("loads.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(step) + "\n" for step in chosen)
        plans = [json.loads(line) for line in self.tool("omnibal-plan", "--steps", self.path("loads.jsonl"),
                                                        self.path("program/step-problem.json"), "--json").splitlines()]
        expected = [[str(p["step"]), *(str(sum(m[key] for m in step["microbatches"])) for key in ("tiles", "tokens")),
                     *(f"{p[key] / 1e6:.3f}" for key in ("step_ns", "bound_ns", "static_ns")),
                     f"{p['static_ns'] / p['step_ns']:.3f}", {"lists": "its own", "static": "program"}[p["method"]]]
                    for step, p in zip(chosen, plans)]
        self.assertEqual(rows, expected)
        self.assertTrue(any(len(borders) > 2 for p in plans for borders in p["sub_microbatches"]), "no micro-batch is divided")
        mean = {key: sum(p[key] for p in plans) for key in ("step_ns", "bound_ns", "static_ns")}
        for card in (f"{mean['step_ns'] // 16 / 1e6:.3f} ms", f"{100 * (mean['step_ns'] / mean['bound_ns'] - 1):.2f} %",
                     f"{mean['static_ns'] / mean['step_ns']:.3f}"):
            self.assertIn(f"<b>{card}</b>", page)
        # Least, median and greatest gain are drawn, in the order of steps.
        order = sorted(range(16), key=lambda i: (plans[i]["static_ns"] / plans[i]["step_ns"], i))
        drawn = sorted((order[0], order[7], order[15]))
        self.assertEqual([int(n) for n in re.findall(r"<p>Step (\d+): planned", page)], [plans[i]["step"] for i in drawn])
        self.check_pictures(page, [plans[i] for i in drawn])

    def check_pictures(self, page, plans):
        """Looks into the middle of actions where --print says that they run. A chunk's shade keeps the color's largest channel."""
        text = self.tool("omnibal-run", "--print", self.path("program"), "--loads", self.path("loads.jsonl"))
        printed = {int(number): re.split(r"\n  stage \d+, ", step) for number, step in
                   re.findall(r"(?ms)^step (\d+): (.*?)(?=^step |\Z)", text)}
        row, bar, title, gap, card = 27, 19, 15, 18, 0xf6f8fa
        largest = {"F": 2, "B": 1, "I": 1, "W": 0}
        for number, plan in enumerate(plans):
            colors, _, places = self.look(page, f"sample{number}")
            longest = max(plan["step_ns"], plan["static_ns"]) / 1e6
            actions, ends = [], []
            for rank, stage in enumerate(printed[plan["step"]][1:]):
                for kind, start, length in re.findall(r"([FBIW])\d+\S*?@([\d.]+)\+([\d.]+)", stage):
                    if float(length) / longest * PLOT > 6: # enough pixels to look into
                        actions.append((kind, (float(start) + float(length) / 2) / longest, title + rank * row + 3))
                if plan["step_ns"] < 0.99 * plan["static_ns"]: # behind the end of the shorter one
                    ends.append((True, plan["step_ns"] / 1e6 / longest + 0.005, title + rank * row + bar / 2))
                ends.append((False, plan["static_ns"] / 1e6 / longest - 0.002, 2 * title + gap + (self.STAGES + rank) * row + bar / 2))
            self.assertGreater(len(actions), 20)
            for (kind, t, _), color in zip(actions, colors([(t, 0, y) for _, t, y in actions], 1), strict=True):
                channels = color >> 16, color >> 8 & 255, color & 255
                self.assertGreater(max(channels) - min(channels), 40, f"{kind} at {t} of sample {number}: {color:06x}")
                self.assertEqual(channels.index(max(channels)), largest[kind], f"{kind} at {t} of sample {number}: {color:06x}")
            for (is_empty, t, y), color in zip(ends, colors([(t, 0, y) for _, t, y in ends], 1), strict=True):
                self.assertEqual(color == card, is_empty, f"at {t}, {y} of sample {number}: {color:06x}")

    def test_without_batches_no_steps_are_known(self):
        page = self.compile("--schedule", "per-step")
        self.assertIn("Without a full step of --batches no step's loads are known", page)
        self.assertNotIn('id="samples"', page)
        self.assertNotIn("Steps with plans of their own", self.compile("--schedule", "auto"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
