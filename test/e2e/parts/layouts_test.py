#!/usr/bin/env python3
"""Parts of a stage that do different things: layouts_test.py BIN_FOLDER DATA_FOLDER CLASS [unittest options]

Losses and gradients against PyTorch are those of reference_losses.py; here is what holds to the bit, what files hold, and what is
refused.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from outcomes import OutcomeCase, layout  # noqa: E402
from run_case import BIN, DATA, MODEL, MPIRUN  # noqa: E402


def file_of(name):
    return os.path.join(DATA, "layouts", f"tiny-internvl-{name}.json")


def parts(k, name):
    return ("--model-parallel", str(k), "--layouts", file_of(name))


class Bits(OutcomeCase):
    layouts = {"heads": layout(1, 1, *parts(2, "key-heads")), "deep": layout(2, 2, *parts(2, "words")),
               "uneven": layout(2, 1, *parts(3, "query-heads")), "replicas": layout(1, 2, *parts(3, "key-heads")),
               "tokens": layout(2, 2, *parts(2, "sequence")), "rows": layout(2, 1, *parts(3, "rows")),
               "tokens-zero": layout(2, 2, *parts(2, "sequence"), "--zero", "1"),
               "deep-zero": layout(2, 2, *parts(2, "words"), "--zero", "1"), "replicas-zero": layout(1, 2, *parts(3, "key-heads"), "--zero", "1")}

    def test_dividing_the_optimizer_state_changes_no_bit(self):
        for name in ("deep", "replicas", "tokens"):
            with self.subTest(program=name):
                self.assertSame(self.outcome(name, 6), self.outcome(f"{name}-zero", 6), name)

    def test_however_ranks_are_started(self):
        for name, ranks in (("heads", 2), ("deep", 8), ("uneven", 6), ("tokens", 8), ("rows", 6)):
            alone = self.outcome(name, 6, "--threads", "1")
            with self.subTest(program=name, launch="threads"):
                self.assertSame(alone, self.outcome(name, 6, "--threads", "2"), f"{name} by more compute threads")
            for launch in ("mpirun", "tcp"):
                with self.subTest(program=name, launch=launch):
                    self.assertSame(alone, self.outcome(name, 6, "--threads", "1", ranks=ranks, launch=launch), f"{name} by {launch}")


class Files(OutcomeCase):
    layouts = {"one": layout(1, 1), "two": layout(1, 1, *parts(2, "key-heads")), "three": layout(2, 1, *parts(3, "query-heads")),
               "deep": layout(2, 2, *parts(2, "words")), "zero": layout(2, 2, *parts(3, "key-heads"), "--zero", "1"),
               "tokens": layout(2, 1, *parts(2, "sequence")), "rows": layout(1, 2, *parts(3, "rows"))}

    def test_losses_are_those_of_one_part(self):
        expected = self.outcome("one", 6)[0]
        for name in ("two", "three", "deep", "tokens", "rows"):
            for a, b in zip(expected, self.outcome(name, 6)[0], strict=True):
                self.assertEqual(a["label_tokens"], b["label_tokens"])
                for key in ("loss", "grad_norm"):
                    self.assertAlmostEqual(a[key] / b[key], 1, delta=2e-5, msg=f"{name}: {a} {b}")

    def resumed(self, program, name):
        """Weights that a run holds which goes on from `name` without a step."""
        self.run_tool("--resume", self.path(f"{name}.ck"), "--save", self.path("again.saved"), "--steps", 4, program=program, steps=self.groups(6))
        return self.weights("again.saved")

    def test_files_hold_whole_tensors(self):
        for name in self.layouts:
            saved = self.outcome(name, 6, name=name)[1]
            for program in self.layouts:
                with self.subTest(written=name, read=program):
                    self.assertEqual(self.resumed(program, name), saved)

    def test_a_run_goes_on_with_the_same_bits(self):
        for name in ("three", "deep"):
            with self.subTest(program=name):
                whole = self.outcome(name, 6)
                self.outcome(name, 6, "--steps", "2", name="half")
                self.run_tool("--resume", self.path("half.ck"), "--save", self.path("rest.saved"), "--lr", "1e-3", "--clip", "0.5",
                              program=name, steps=self.groups(6))
                self.assertEqual(self.weights("rest.saved"), whole[1])

    def test_a_checkpoint_without_a_copy_in_memory(self):
        self.assertSame(self.outcome("three", 6), self.outcome("three", 6, "--checkpoint-buffer", "0"), "no buffer")

    def test_modes_without_training(self):
        counts = []
        for name in ("one", "two"):
            command = self.command("--evaluate", "--log", self.path("log"), program=name)
            at = command.index("--steps-file")
            subprocess.run(command[:at] + command[at + 2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(self.path("log")) as file:
                counts.append(json.load(file))
        self.assertEqual(counts[0]["label_tokens"], counts[1]["label_tokens"])
        self.assertAlmostEqual(counts[0]["loss"] / counts[1]["loss"], 1, delta=1e-5)

    def moves(self, program):
        """By function what its parts send: kernel and size of what each part has."""
        with open(f"{self.programs}/{program}/functions.json") as file:
            return {function["name"]: [(call["kernel"], dict(call["operands"])["src"][2]) for call in function["calls"]
                                       if call["kernel"].startswith(("all_", "reduce_"))
                                       and call["kernel"] != "reduce_rows"] for function in json.load(file)}

    def blocks(self, moves):
        """Functions of decoder blocks, all of which send."""
        blocks = {name.split(".")[0] for name, made in moves.items() if name.startswith("language") and name.endswith(".forward") and len(made) > 1}
        self.assertTrue(blocks)
        return [(name, made) for name, made in moves.items() if name.split(".")[0] in blocks]

    def test_a_block_sends_what_is_counted_by_hand(self):
        """Megatron's: a sum behind attention and one behind the feed-forward layer, and their gradients' in front of them."""
        blocks = self.blocks(self.moves("two"))
        self.assertTrue(any(name.endswith(".backward") for name, _ in blocks))
        for name, made in blocks:
            self.assertEqual(made, [("all_reduce", [1, [0, 0, 1], 64])] * 2, name)

    def test_a_block_of_shares_of_tokens_sends_as_much(self):
        """Megatron's with sequences: tokens gathered in front of each product of columns, and what comes out of those of rows summed into
        shares; the gradients' the other way round, and those of the two norms' weights added."""
        blocks = self.blocks(self.moves("tokens"))
        self.assertTrue(any(name.endswith(".backward") for name, _ in blocks))
        for name, made in blocks:
            norms = ("all_reduce", [64])
            self.assertEqual(made.count(norms), 2 if name.endswith(".backward") else 0, name)
            self.assertEqual([move for move in made if move != norms],
                             [("all_gather", [1, [0, 0, 0, 0, 1], 64]), ("reduce_scatter", [1, [0, 0, 1], 64])] * 2, name)

    def test_what_layers_hold_and_send_is_printed(self):
        """By hand: of B bytes a gather sends (k - 1) / k, a sum twice as much."""
        whole = 420 * 64 * 4  # at the caps
        for program, forward, backward in (
                ("two", f"2 all_reduce: {self.kilobytes(2 * whole)}", f"2 all_reduce: {self.kilobytes(2 * whole)}"),
                ("tokens", f"2 all_gather, 2 reduce_scatter: {self.kilobytes(2 * whole)}",
                 f"2 all_gather, 2 all_reduce, 2 reduce_scatter: {self.kilobytes(2 * whole + 2 * 64 * 4)}")):
            said = subprocess.run([f"{BIN}/omnibal-run", f"{self.programs}/{program}", "--print"], capture_output=True, text=True, check=True).stdout
            self.assertIn("what each of 2 parts holds and sends of a full micro-batch, mode train:\n", said)
            self.assertRegex(said, r"language\.layers\.\d+( to language\.layers\.\d+)?\n    holds self_attn\.q_proj\.weight split\(0 : ")
            self.assertIn(f"sends forward {forward}; backward {backward}\n", said)

    @staticmethod
    def kilobytes(count):
        return f"{count / 1e3:.1f} kB"

    def test_what_is_counted_counts_once(self):
        counted = {}
        for name in self.layouts:
            self.run_tool("--log", self.path("log"), program=name, steps=self.groups(6))
            with open(self.path("log")) as file:
                counted[name] = [{key: line[key] for key in ("samples", "tokens", "tiles", "label_tokens", "model_flops")}
                                 for line in map(json.loads, file)]
        for name, lines in counted.items():
            self.assertEqual(lines, counted["one"], name)

    def test_measuring_and_tracing(self):
        self.run_tool("--calibrate", self.path("table.json"), program="three", steps=self.groups(6))
        with open(self.path("table.json")) as file:
            self.assertEqual(json.load(file)["program"]["model_parallel"], 3)
        self.run_tool("--trace", self.path("trace.json"), program="deep", steps=self.groups(6))
        with open(self.path("trace.json")) as file:
            self.assertIn("all_reduce", file.read())

    def test_a_part_holds_its_share(self):
        said = self.run_tool("--steps", 1, program="two", steps=self.groups(6))
        self.assertIn("stage 0, part 0  rank 0 ", said)
        self.assertIn("stage 0, part 1  rank 1 ", said)

    def test_a_wrong_number_of_ranks_is_refused(self):
        said = self.run_tool(program="two", steps=self.groups(6), launcher=(*MPIRUN, "3"), code=1)
        self.assertIn("mpirun started 3 ranks, but the program needs 2 ranks (1 stages x 1 data-parallel ranks x 2 parts)", said)


class Searched(OutcomeCase):
    layouts = {"one": layout(1, 1), "none": layout(1, 1, "--model-parallel", "2", "--layouts", "none"),
               "by-hand": layout(1, 1, *parts(2, "key-heads")),
               "searched": layout(1, 1, "--model-parallel", "2", "--layout-price", "1"),
               "fast": layout(2, 1, "--model-parallel", "2", "--layout-price", "0"),
               "usual": layout(1, 1, "--model-parallel", "2")}

    def persistent(self, program):
        """Bytes of the fullest rank; those of programs whose parts do the same are of one part."""
        with open(f"{self.programs}/{program}/stages.json") as file:
            return max(stage["persistent_bytes"] for stage in json.load(file))

    def divided(self, program):
        """How many parameters the parts hold shares of."""
        with open(f"{self.programs}/{program}/stages.json") as file:
            return sum("held" in parameter for stage in json.load(file) for parameter in stage["parameters"])

    def test_what_is_divided(self):
        counts = {name: self.divided(name) for name in self.layouts}
        print(f"parameters that are divided: {counts}", file=sys.stderr)
        self.assertEqual((counts["one"], counts["none"]), (0, 0))
        self.assertGreater(counts["usual"], 0)
        self.assertLessEqual(counts["fast"], counts["usual"])
        self.assertLessEqual(counts["usual"], counts["searched"])

    def test_memory(self):
        one, by_hand, searched = map(self.persistent, ("one", "by-hand", "searched"))
        print(f"persistent bytes of a part of 2: {searched} searched, {by_hand} by hand, {one} undivided ({searched / one:.3f})", file=sys.stderr)
        self.assertLessEqual(searched, by_hand)
        self.assertLessEqual(searched, 0.6 * one)

    def test_parts_that_do_the_same_have_the_bits_of_one(self):
        self.assertSame(self.outcome("one", 6), self.outcome("none", 6), "without layouts")

    def test_losses_are_those_of_one_part(self):
        expected = self.outcome("one", 6)[0]
        for name in ("searched", "fast", "usual"):
            for a, b in zip(expected, self.outcome(name, 6)[0], strict=True):
                for key in ("loss", "grad_norm"):
                    self.assertAlmostEqual(a[key] / b[key], 1, delta=2e-5, msg=f"{name}: {a} {b}")

    def test_however_ranks_are_started(self):
        alone = self.outcome("searched", 6, "--threads", "1")
        self.assertSame(alone, self.outcome("searched", 6, "--threads", "2"), "by more compute threads")
        for launch in ("mpirun", "tcp"):
            with self.subTest(launch=launch):
                self.assertSame(alone, self.outcome("searched", 6, "--threads", "1", ranks=2, launch=launch), launch)

    def test_a_compilation_finds_the_same_layouts_again(self):
        self.assertEqual(*(subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", "--model-parallel", "2",
                                           "--layout-price", "0.01", "-o", self.path(name)], check=True, stdout=subprocess.DEVNULL) and
                           open(f"{self.path(name)}/stages.json", "rb").read() for name in ("first", "second")))


class Planned(OutcomeCase):
    layouts = {}

    def layers(self, latency, bandwidth):
        with open(self.path("cluster.json"), "w") as file:
            json.dump({"stages": 1, "parts": {"latency_ns": latency, "bytes_per_s": bandwidth}}, file)
        subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", *parts(2, "key-heads"), "--cluster",
                        self.path("cluster.json"), "--dry-run", "--emit-problem", self.path("problem.json")], check=True, stdout=subprocess.DEVNULL)
        with open(self.path("problem.json")) as file:
            return {layer["name"]: layer for layer in json.load(file)["layers"]}

    def test_moves_have_their_time(self):
        """A language block has two sums forward and two backward, each over both parts there and back, of 420 tokens of 64 columns."""
        fast, late, narrow = self.layers(0, 10**18), self.layers(10**6, 10**18), self.layers(0, 10**6)
        blocks = [name for name in fast if name.startswith("language.layers.")]
        self.assertTrue(blocks)
        for name in blocks:
            for times in (("forward_ns",), ("input_grad_ns", "weight_grad_ns")):
                took = [sum(layers[name][each] for each in times) for layers in (fast, late, narrow)]
                self.assertAlmostEqual(took[1] - took[0], 2 * 2 * 10**6, delta=4, msg=name)
                self.assertAlmostEqual(took[2] - took[0], 2 * 2 * 420 * 64 * 4 / 2 * 1000, delta=4, msg=name)

    def test_unlike_parts_recompute_what_they_can_together(self):
        """Four heads on three parts: what is cheapest to recompute is not the same on all of them, and moves have to be."""
        for remat in ("selective-1", "selective-2", "full"):
            with self.subTest(remat=remat):
                subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "4", "--tokens", "128", "--model-parallel", "3",
                                "--layout-price", "1", "--remat", remat, "--dry-run"], check=True, stdout=subprocess.DEVNULL)


class Refused(OutcomeCase):
    layouts = {}

    def compile(self, *flags):
        result = subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", *flags,
                                 "-o", self.path("program")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotEqual(result.returncode, 0)
        return result.stdout

    def file(self, parameters, **fields):
        with open(self.path("layouts.json"), "w") as file:
            json.dump({"format": "omnibal.layouts/1", "parameters": parameters, **fields}, file)
        return self.path("layouts.json")

    def said(self, match, layout_of):
        return self.compile("--model-parallel", "2", "--layouts", self.file([{"match": match, "layout": layout_of}]))

    def test_files(self):
        for match, of, says in (("nothing", "split(0 : 4)", "no parameter's name matches 'nothing'"),
                                ("(", "whole", "'(' is not a regular expression"),
                                ("lm_head", "partial", "'partial' is no layout of a parameter"),
                                ("lm_head", "halves", "'halves' is no layout of a parameter"),
                                ("lm_head", "split(0 : 5)", "split(0 : 5) does not fit parameter"),
                                ("lm_head", "split(2 : 4)", "split(2 : 4) does not fit parameter"),
                                ("lm_head", "split(1 : 64)", "layout_c5"),
                                ("layers\\.0\\.self_attn\\.q_proj\\.weight", "split(0 : 64)", "layout_c5")):
            with self.subTest(match=match, layout=of):
                self.assertIn(says, self.said(match, of))
        self.assertIn('the field "more" is unknown', self.compile("--model-parallel", "2", "--layouts", self.file([], more=1)))

    def test_devices(self):
        """All of it can be planned and written for a device."""
        flags = [f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", "--stages", "2"]
        searched = ("--model-parallel", "2", "--layout-price", "1")
        for wanted in (parts(2, "key-heads"), searched, parts(2, "head")):
            with self.subTest(flags=wanted):
                command = [f"{BIN}/omnibal-compile", *flags, *wanted, "--target", "cuda"]
                planned = subprocess.run([*command, "--dry-run"], capture_output=True, text=True)
                self.assertEqual(planned.returncode, 0, planned.stderr)
                self.assertRegex(planned.stdout, r"predicted step: [0-9.]+ ms")
                written = subprocess.run([*command, "-o", self.path("program")], capture_output=True, text=True)
                self.assertEqual(written.returncode, 0, written.stderr)

    def test_flags(self):
        given = parts(2, "key-heads")
        for flags, says in (((*given, "--schedule", "per-step"), "--schedule"),
                            (("--layouts", file_of("key-heads")), "--model-parallel"), (("--layout-price", "1"), "--model-parallel"),
                            ((*given, "--layout-price", "1"), "--layout-price"), (("--model-parallel", "2", "--layouts", "nothing"), "--layouts"),
                            ((*given, "--ranks", "3", "--groups", "4"), "--model-parallel")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.compile(*flags))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
