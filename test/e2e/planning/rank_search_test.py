#!/usr/bin/env python3
"""omnibal-compile --ranks as users call it: rank_search_test.py BIN_FOLDER DATA_FOLDER

The division that it chooses is compared with programs that are compiled for every division by hand.
"""
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl", "model.onnx")
CAPS = ("--tiles", "4", "--tokens", "128")
LAYERS = 14
PARTS = (1, 2, 4, 8)
ROW = re.compile(r" +(\d+) +(\d+) +(\d+)(?: +(?:stages|replicas))? +(yes|no) +(\d+) +(\S+)(?: ms)? +(\S+)(?: ms)?  (.*)")


def run_compiler(*arguments):
    command = [os.path.join(BIN, "omnibal-compile"), MODEL, *CAPS, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def compile_model(*arguments, code=0):
    result = run_compiler(*arguments)
    if result.returncode != code:
        raise AssertionError(f"exit {result.returncode} from {' '.join(result.args)}\n{result.stdout}\n{result.stderr}")
    return result.stdout if code == 0 else result.stderr


def divisions(ranks, groups):
    return [(parts, stages, replicas, zero) for parts in PARTS for stages in range(1, LAYERS + 1) for replicas in range(1, ranks + 1)
            for zero in (0, 1) if parts * stages * replicas == ranks and groups % replicas == 0 and (zero == 0 or replicas > 1)]


def predicted(text):
    return float(re.search(r"predicted step: ([0-9.]+) ms", text)[1])


def is_chosen(row):
    return row[-1].split(",")[0] == "chosen"


def prices_by_hand(row):
    """The layouts of a row of the table are those at this price."""
    price = re.search(r", with --layout-price (\S+)$", row[-1])
    return ("--layout-price", price[1]) if price else ()


def rows(text):
    return [match.groups() for match in map(ROW.fullmatch, text.splitlines()) if match]


class RankCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-ranks-")
        cls.addClassCleanup(shutil.rmtree, cls.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return self.path(name)

    def fast_parts(self, bytes_per_s=10**14):
        """Links that make many parts pay."""
        slow = {"latency_ns": 3_000_000, "bytes_per_s": 20_000_000}
        return self.write(f"parts-{bytes_per_s}.json",
                          {"link": slow, "data_parallel": slow, "parts": {"latency_ns": 0, "bytes_per_s": bytes_per_s}})

    def flags_by_hand(self, division, groups, flags):
        """What asks for a division; other flags stay, as far as they make sense for it."""
        parts, stages, replicas, zero = division
        kept = ["--model-parallel", parts, "--stages", stages, "--data-parallel", replicas, "--zero", zero, "--microbatches", groups // replicas]
        for flag, value in zip(flags[::2], flags[1::2]):
            if flag == "--cluster":
                with open(value, encoding="utf-8") as file:
                    cluster = json.load(file)
                value = self.write("known.json", {**cluster, "stages": stages, "data_parallel": {**cluster["data_parallel"], "size": replicas}})
            if flag not in ("--model-parallel", "--stages", "--data-parallel", "--zero") and not (parts == 1 and flag.startswith("--layout")):
                kept += [flag, value]
        return kept


class Choice(RankCase):
    def setUp(self):
        self.priced = set()  # divisions whose layouts at the usual price are not the best
        self.between = set()  # those whose best ones are at a price between that and 0

    def by_hand(self, ranks, groups, *flags):
        """Predicted milliseconds of each division; None: it has no plan."""
        steps = {}
        for division in divisions(ranks, groups):
            of_layouts = [self.step_by_hand(division, groups, flags)]
            if division[0] > 1 and "--layout-price" not in flags:
                of_layouts.append(self.step_by_hand(division, groups, (*flags, "--layout-price", 0)))
                if of_layouts[0] is None:
                    of_layouts.append(self.step_by_hand(division, groups, (*flags, "--layout-price", 1)))
            steps[division] = min(filter(None, of_layouts), default=None)
            if steps[division] != of_layouts[0]:
                self.priced.add(division)
        return steps

    def try_between(self, steps, division, groups, flags, outcome):
        """Layouts at a price between the usual one and 0 count where they are the better ones."""
        price = prices_by_hand([outcome])
        if price and 0 < float(price[1]) < 1:
            between = self.step_by_hand(division, groups, (*flags, *price))
            self.assertLess(between, steps[division] or between + 1, f"{division}: {outcome}")
            steps[division] = between
            self.between.add(division)

    def step_by_hand(self, division, groups, flags):
        result = run_compiler(*self.flags_by_hand(division, groups, flags), "--dry-run")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        if result.returncode == 1:
            self.assertIn("infeasible", result.stderr)
        return predicted(result.stdout) if result.returncode == 0 else None

    def check(self, ranks, groups, *flags):
        steps = self.by_hand(ranks, groups, *flags)
        text = compile_model("--ranks", ranks, "--groups", groups, "--dry-run", *flags)
        table = {(*map(int, numbers), int(zero == "yes")): (step, outcome) for *numbers, zero, _, step, _, outcome in rows(text)}
        self.assertEqual(set(table), set(steps), text)
        for division, (_, outcome) in table.items():
            self.try_between(steps, division, groups, flags, outcome)
        best = min(step for step in steps.values() if step is not None)
        self.assertAlmostEqual(predicted(text), best, delta=0.011)
        for division, (step, outcome) in table.items():
            if outcome == "does not fit":
                self.assertIsNone(steps[division], text)
                self.assertIn(f"{' x '.join(map(str, division[:3]))}{' with ZeRO-1' if division[3] else ''}: infeasible", text)
            elif outcome.startswith("its bound"):
                self.assertGreaterEqual(steps[division] or best, best)
            elif "far behind" not in outcome:
                self.assertAlmostEqual(float(step), steps[division], delta=0.011, msg=f"{division}\n{text}")
        chosen = [(*map(int, numbers), int(zero == "yes")) for *numbers, zero, _, _, _, outcome in filter(is_chosen, rows(text))]
        self.assertEqual(len(chosen), 1, text)
        self.assertAlmostEqual(steps[chosen[0]], best, delta=0.011)
        return chosen[0], steps

    def test_equals_the_best_of_all_divisions(self):
        slow = {"link": {"latency_ns": 5000, "bytes_per_s": 2_000_000_000}, "data_parallel": {"latency_ns": 50_000, "bytes_per_s": 20_000_000}}
        chosen = set()
        for number, (ranks, groups, flags) in enumerate([
                (4, 8, ()), (6, 12, ()), (4, 4, ("--schedule", "zb-h1")), (4, 8, ("--memory-limit-bytes", 6_500_000)),
                (8, 16, ("--memory-limit-bytes", 4_000_000)), (4, 4, ("--cluster", self.fast_parts(), "--layout-price", 1)),
                (2, 4, ("--cluster", self.fast_parts(10**9), "--memory-limit-bytes", 3_500_000))]):
            chosen.add(self.check(ranks, groups, *flags)[0])
        # Gradients over a slow link cost more than messages between stages.
        cluster = self.write("slow.json", slow)
        text = compile_model("--ranks", 4, "--groups", 8, "--cluster", cluster, "--dry-run")
        given = self.write("given.json", {"stages": 4, **slow})
        by_hand = compile_model("--stages", 4, "--cluster", given, "--microbatches", 8, "--dry-run")
        self.assertEqual(predicted(text), predicted(by_hand))
        self.assertIn(("1", "4", "1", "no"), [row[:4] for row in filter(is_chosen, rows(text))])
        self.assertGreaterEqual(len(chosen), 2, "every case chose the same division")
        self.assertGreaterEqual(len({parts for parts, *_ in chosen}), 2, "every case chose the same number of parts")
        self.assertTrue(self.priced, "at the usual price all layouts were the best")
        self.assertTrue(self.between, "no layouts between were the best")

    def test_a_schedule_by_search_is_searched_where_it_can_win(self):
        text = compile_model("--ranks", 4, "--groups", 8, "--schedule", "auto", "--memory-limit-bytes", 8_000_000, "--dry-run")
        steps = self.by_hand(4, 8, "--schedule", "auto", "--memory-limit-bytes", 8_000_000)
        self.assertAlmostEqual(predicted(text), min(filter(None, steps.values())), delta=0.011)


class Programs(RankCase):
    def assertSameProgram(self, one, other):
        names = sorted(os.listdir(self.path(one)))
        self.assertEqual(names, sorted(os.listdir(self.path(other))))
        same, different, lacking = filecmp.cmpfiles(self.path(one), self.path(other), names, shallow=False)
        self.assertEqual((different, lacking), ([], []))
        self.assertEqual(same, names)

    def test_the_program_is_that_of_the_division_by_hand(self):
        chosen = set()
        for number, flags in enumerate([
                ("--stages", 2, "--zero", 1), ("--model-parallel", 2), ("--model-parallel", 2, "--stages", 1, "--zero", 1),
                ("--model-parallel", 2, "--zero", 1, "--layout-price", 1), ("--model-parallel", 4, "--schedule", "zb-h1"),
                ("--cluster", self.fast_parts(), "--layout-price", 1), ("--model-parallel", "auto", "--stages", 2, "--data-parallel", 1),
                ("--model-parallel", 2, "--layouts", os.path.join(DATA, "layouts", "tiny-internvl-key-heads.json")),
                ("--model-parallel", 2, "--layouts", "none"), ("--model-parallel", 2, "--memory-limit-bytes", 6_500_000),
                ("--model-parallel", 4, "--cluster", self.fast_parts(10**9), "--memory-limit-bytes", 3_500_000)]):
            with self.subTest(flags=flags):
                searched, given = f"searched-{number}", f"given-{number}"
                text = compile_model("--ranks", 4, "--groups", 8, *flags, "-o", self.path(searched))
                [row] = filter(is_chosen, rows(text))
                division = (*map(int, row[:3]), int(row[3] == "yes"))
                chosen.add(division)
                compile_model(*self.flags_by_hand(division, 8, (*flags, *prices_by_hand(row))), "-o", self.path(given))
                self.assertSameProgram(given, searched)
        self.assertGreaterEqual(len({parts for parts, *_ in chosen}), 3, chosen)
        self.assertTrue(any(parts > 1 and zero for parts, _, _, zero in chosen), chosen)


    def test_layouts_that_divide_all_where_others_do_not_fit(self):
        """On a fast device moves take longer than the memory that they save is worth by the usual price."""
        asked, flags = ("--ranks", 2, "--groups", 2), ("--model-parallel", 2, "--device", "h100", "--memory-limit-bytes")
        text = compile_model(*asked, *flags, 5_000_000, "-o", self.path("searched"))
        self.assertEqual([row[-1] for row in rows(text)], ["chosen, with --layout-price 1"], text)
        compile_model("--microbatches", 2, *flags, 5_000_000, "--layout-price", 1, "-o", self.path("given"))
        self.assertSameProgram("given", "searched")
        self.assertEqual([row[-1] for row in rows(compile_model(*asked, *flags, 7_000_000, "--dry-run"))], ["chosen"])
        # A price that is given stays, and where nothing fits the reason is that of the layouts which were asked for.
        self.assertIn("no division of 2 ranks has a plan", compile_model(*asked, *flags, 5_000_000, "--layout-price", 0.0001, "--dry-run", code=1))
        reasons = [compile_model(*given, *flags, 3_000_000, "--dry-run", code=1) for given in (("--microbatches", 2), asked)]
        first, other = (re.search(r"infeasible: (.*)", reason)[1] for reason in reasons)
        self.assertEqual(first, other)

    def test_the_order_of_ranks_is_that_of_the_program(self):
        """Two replicas of a stage are on one machine, where their gradients do not wait."""
        cluster = {"link": {"latency_ns": 20_000, "bytes_per_s": 10**9}, "data_parallel": {"latency_ns": 20_000_000, "bytes_per_s": 10**9},
                   "node": {"ranks": 2, "latency_ns": 1000, "bytes_per_s": 10**11}}
        flags = ("--stages", 2, "--zero", 0)
        text = compile_model("--ranks", 4, "--groups", 8, "--model-parallel", 1, *flags, "--cluster", self.write("nodes.json", cluster),
                             "-o", self.path("searched"))
        self.assertEqual([row[-1] for row in rows(text)].count("chosen"), 1, text)
        self.assertRegex(text, r"\n +1 +2 +2 +replicas +no .* chosen\n")
        known = self.write("known.json", {**cluster, "stages": 2, "data_parallel": {**cluster["data_parallel"], "size": 2}})
        by_hand = (*flags, "--data-parallel", 2, "--microbatches", 4, "--cluster", known)
        compile_model(*by_hand, "--rank-order", "replica", "-o", self.path("given"))
        self.assertSameProgram("given", "searched")
        self.assertLess(predicted(text), predicted(compile_model(*by_hand, "--dry-run")))


class Flags(RankCase):
    def test_what_is_given_stays(self):
        text = compile_model("--ranks", 4, "--groups", 8, "--data-parallel", 2, "--zero", "auto", "--stages", "auto", "--dry-run")
        self.assertEqual({row[:3] for row in rows(text)}, {("1", "2", "2"), ("2", "1", "2")})
        text = compile_model("--ranks", 4, "--groups", 8, "--zero", 1, "--dry-run")
        self.assertEqual({row[3] for row in rows(text)}, {"yes"})
        for parts, found in ((1, {"1"}), (2, {"2"}), ("auto", {"1", "2", "4"})):
            text = compile_model("--ranks", 4, "--groups", 8, "--model-parallel", parts, "--dry-run")
            self.assertEqual({row[0] for row in rows(text)}, found)
        # Other numbers than the usual ones may be said.
        text = compile_model("--ranks", 3, "--groups", 3, "--model-parallel", 3, "--dry-run")
        self.assertEqual({row[:3] for row in rows(text)}, {("3", "1", "1")})

    def test_omnibal_plan_chooses_the_same(self):
        """Without a limit of memory, of which the compiler reserves some, both plan the same."""
        choice, problem, plan = map(self.path, ("choice.json", "problem.json", "plan.json"))
        slow = {"latency_ns": 50_000, "bytes_per_s": 10**9}
        nodes = self.write("nodes.json", {"link": slow, "data_parallel": slow, "node": {"ranks": 2, "latency_ns": 1000, "bytes_per_s": 10**11}})
        chosen = set()
        for flags in ((), ("--schedule", "zb-h1"), ("--cluster", self.fast_parts()), ("--stages", 2, "--zero", 1),
                      ("--schedule", "auto"), ("--cluster", self.fast_parts(), "--layout-price", 1), ("--cluster", nodes, "--model-parallel", 2),
                      ("--cluster", nodes, "--rank-order", "replica", "--stages", 2)):
            with self.subTest(flags=flags):
                text = compile_model("--ranks", 4, "--groups", 8, *flags, "--dry-run", "--emit-choice", choice)
                done = subprocess.run([os.path.join(BIN, "omnibal-plan"), choice, "-o", plan, "--emit-problem", problem],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
                ours, theirs = (each.replace("--layout-price", "layout price").split("\ndivisions of ")[1] for each in (text, done.stdout))
                self.assertEqual(ours, theirs)
                [row] = filter(is_chosen, rows(text))
                chosen.add(row[:4])
                check = subprocess.run([os.path.join(BIN, "omnibal-plan"), "--check", problem, plan], stdout=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual((check.returncode, check.stdout), (0, f"{plan}: valid\n"))
                megatron = subprocess.run([*check.args, "--export", "megatron"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60).stdout
                self.assertEqual("--tensor-model-parallel-size " in megatron, row[0] != "1")
                self.assertEqual("--use-tp-pp-dp-mapping" in megatron, row[1] != "1" and row[2] != "1" and "replica" not in flags)
        self.assertGreaterEqual(len({parts for parts, *_ in chosen}), 2, chosen)
        for words, flags in (("--emit-choice needs --ranks", ()), ("leave --remat and --partition out", ("--ranks", 2, "--groups", 2, "--remat", "full"))):
            self.assertIn(words, compile_model(*flags, "--dry-run", "--emit-choice", choice, code=2))

    def test_parts_are_those_that_a_node_holds(self):
        links = {"latency_ns": 1000, "bytes_per_s": 10_000_000_000}
        for ranks, found in ((1, {"1"}), (2, {"1", "2"}), (3, {"1", "2"}), (4, {"1", "2", "4"})):
            cluster = self.write("node.json", {"node": {"ranks": ranks, **links}})
            text = compile_model("--ranks", 4, "--groups", 8, "--cluster", cluster, "--dry-run")
            self.assertEqual({row[0] for row in rows(text)}, found)

    def test_where_parts_cannot_be_used_there_is_one(self):
        for flags, why in ((("--schedule", "per-step", "--stages", 2), "--schedule per-step"),):
            text = compile_model("--ranks", 2, "--groups", 2, *flags, "--dry-run")
            self.assertEqual({row[0] for row in rows(text)}, {"1"})
            self.assertIn(f"stages have one part, as {why} does not go together with parts that differ yet", text)
            said = compile_model("--ranks", 2, "--groups", 2, "--model-parallel", 2, *flags, "-o", self.path("program"), code=2)
            self.assertIn(f"{why} does not go together with parts that differ yet", said)
        # Layouts that an optimizer cannot have are found on the way.
        text = compile_model("--ranks", 2, "--groups", 2, "--optimizer", "adafactor", "--layout-price", 1, "--dry-run")
        self.assertEqual({row[0] for row in rows(text) if row[-1] == "cannot be divided"}, {"2"}, text)
        self.assertIn("2 parts: --optimizer adafactor: layouts split this parameter", text)

    def test_a_node_makes_links_fast(self):
        slow = {"latency_ns": 1_000_000, "bytes_per_s": 50_000_000}
        cluster = {"link": slow, "data_parallel": slow}
        node = {"ranks": 2, "latency_ns": 1000, "bytes_per_s": 50_000_000_000}
        plain = compile_model("--ranks", 4, "--groups", 8, "--cluster", self.write("plain.json", cluster), "--dry-run")
        fast = compile_model("--ranks", 4, "--groups", 8, "--cluster", self.write("node.json", {**cluster, "node": node}), "--dry-run")
        self.assertLess(predicted(fast), predicted(plain))
        # With the division given, too; both stages are in one node.
        hand = {"stages": 2, "link": {key: node[key] for key in slow}, "data_parallel": {"size": 2, **slow}}
        given = {"stages": 2, "link": slow, "data_parallel": {"size": 2, **slow}, "node": node}
        steps = [predicted(compile_model("--cluster", self.write(f"{name}.json", value), "--dry-run"))
                 for name, value in (("hand", hand), ("given", given))]
        self.assertEqual(*steps)
        # What the file leaves open, flags may say.
        open_file = self.write("open.json", {**cluster, "node": node})
        self.assertEqual(predicted(compile_model("--cluster", open_file, "--stages", 2, "--data-parallel", 2, "--dry-run")), steps[0])

    def test_refusals(self):
        cluster = self.write("uneven.json", {"stages": 2, "memory_bytes": [1_000_000_000, 2_000_000_000]})
        node = self.write("half.json", {"stages": 1, "node": {"ranks": 2}})
        layouts = self.write("layouts.json", {"format": "omnibal.layouts/1", "parameters": [{"match": "nothing", "layout": "whole"}]})
        for words, flags, code in (
                ("--ranks needs --groups", ("--ranks", 4), 2),
                ("--groups needs --ranks", ("--groups", 4), 2),
                ("--stages auto needs --ranks", ("--stages", "auto"), 2),
                ("--zero auto needs --ranks", ("--zero", "auto"), 2),
                ("--rank-order auto needs --ranks", ("--rank-order", "auto"), 2),
                ("--model-parallel auto needs --ranks", ("--model-parallel", "auto"), 2),
                ("stages of 3 parts cannot be made of 4 ranks; let --model-parallel be a divisor of 4, or auto",
                 ("--ranks", 4, "--groups", 4, "--model-parallel", 3, "--dry-run"), 1),
                ("no division of 4 ranks gives", ("--ranks", 4, "--groups", 4, "--model-parallel", 2, "--stages", 4, "--dry-run"), 1),
                ("no parameter's name matches 'nothing'", ("--ranks", 2, "--groups", 2, "--layouts", layouts, "--dry-run"), 1),
                ("--optimizer adafactor: layouts split this parameter",
                 ("--ranks", 2, "--groups", 2, "--model-parallel", 2, "--optimizer", "adafactor", "--layout-price", 1, "--dry-run"), 1),
                ("--layouts needs --model-parallel", ("--ranks", 2, "--groups", 2, "--model-parallel", 1, "--layouts", layouts, "--dry-run"), 2),
                ("--microbatches is about replicas that are known", ("--ranks", 4, "--groups", 4, "--microbatches", 4), 2),
                ("no division of 4 ranks", ("--ranks", 4, "--groups", 3, "--stages", 2, "--model-parallel", 1, "--dry-run"), 1),
                ("no division of 4 ranks has a plan", ("--ranks", 4, "--groups", 4, "--memory-limit-bytes", 1000, "--dry-run"), 1),
                ("all ranks have the same memory", ("--ranks", 4, "--groups", 4, "--cluster", cluster, "--dry-run"), 1),
                ("node: `latency_ns` is missing", ("--cluster", node, "--dry-run"), 1),
                ("`stages` is missing, there and as --stages", ("--cluster", self.fast_parts(), "--dry-run"), 1),
                ("`stages` is 2, --stages says 3", ("--cluster", cluster, "--stages", 3, "--dry-run"), 1)):
            self.assertIn(words, compile_model(*flags, code=code))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
