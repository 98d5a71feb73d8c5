#!/usr/bin/env python3
"""Whether judgement.py notices gradients that are wrong but have the right norms: judgement_test.py BIN_FOLDER DATA_FOLDER"""
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
import judgement  # noqa: E402
import projections  # noqa: E402
from reference_losses import caps_of, read_safetensors, run, write_steps  # noqa: E402

FIRST = (0x7f0a, 0x4c73, 0x7182)
BIN, DATA = (os.path.abspath(path) for path in sys.argv[1:3])


def swapped(values, i, j):
    changed = list(values)
    changed[i], changed[j] = changed[j], changed[i]
    return changed


def damages(values, rows):
    """What keeps a tensor's norm and is another tensor; and one that hardly changes it."""
    order = sorted(range(len(values)), key=values.__getitem__)
    middle = len(values) // 2
    yield "flipped", [-x for x in values]
    yield "half of it flipped", [-x for x in values[:middle]] + list(values[middle:])
    yield "backwards", values[::-1]
    yield "shifted by one", values[1:] + values[:1]
    yield "its largest and smallest numbers swapped", swapped(values, order[0], order[-1])
    yield "its rows shifted by one", values[rows:] + values[:rows]
    yield "0.001 % too large", [1.00001 * x for x in values]


class Judgement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-judgement-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.folder = os.path.join(DATA, "llava-tied")

    def made(self, rule):
        return judgement.Judgement(self.folder, "train_all", 1, rule)

    def test_random_vectors_are_as_documented(self):
        # The stream of SHAKE-128 for "1:weight" begins with these bytes, by another implementation (openssl dgst -shake128).
        vector = projections.random_vector("weight", 1, 1000)
        self.assertEqual(vector[:3], [(s + 0.5) / 32768 for s in FIRST])
        self.assertTrue(all(-1 < x < 1 and x != 0 for x in vector))
        self.assertAlmostEqual(sum(x * x for x in vector) / len(vector), 1 / 3, delta=0.03)
        self.assertNotEqual(vector[:100], projections.random_vector("weight", 2, 100))

    def test_wrong_gradients_fail(self):
        steps_file = os.path.join(self.work, "steps.jsonl")
        steps = self.made(judgement.Float32).steps
        write_steps(steps_file, steps)
        data = os.path.join(self.folder, "data-000000.tar")
        tiles, tokens = caps_of(steps, data)
        program, saved = os.path.join(self.work, "program"), os.path.join(self.work, "gradients.safetensors")
        run([os.path.join(BIN, "omnibal-compile"), os.path.join(self.folder, "model-opset22.onnx"), "--tiles", str(tiles), "--tokens",
             str(tokens), "--microbatches", str(len(steps[0]["groups"])), "-o", program])
        run([os.path.join(BIN, "omnibal-run"), program, "--weights", os.path.join(self.folder, "model.safetensors"), "--data", data,
             "--preprocess", os.path.join(self.folder, "preprocessor_config.json"), "--steps-file", steps_file, "--save-gradients", saved])
        tensors = {name: list(values) for name, values in read_safetensors(saved).items()}
        good = self.made(judgement.Float32)
        good.gradients(tensors)
        self.assertEqual(good.failures, [])
        print(good.summary())
        checked = 0
        for name, values in tensors.items():
            largest = max(map(abs, values))
            if projections.norm(values) < 1e-7 * good.global_norm:
                continue  # zero in exact arithmetic
            for what, damaged in damages(values, max(1, len(values) // 7)):
                self.assertGreater(max(abs(a - b) for a, b in zip(values, damaged, strict=True)), 1e-6 * largest, (name, what))
                judged = self.made(judgement.Float32)
                judged.gradient(name, damaged)
                self.assertEqual(len(judged.failures), 1, f"{name} {what} is not noticed")
                self.assertIn(name, judged.failures[0])
                checked += 1
        self.assertGreater(checked, 300)

        # In bfloat16 what is noticed is coarser: gradients that carry a hundredth of the norm.
        large = [name for name, values in tensors.items() if projections.norm(values) > 0.02 * good.global_norm]
        self.assertGreater(len(large), 10)
        for name in large:
            for what, damaged in list(damages(tensors[name], 3))[:4]:
                judged = self.made(judgement.BFloat16)
                judged.gradient(name, damaged)
                self.assertEqual(len(judged.failures), 1, f"{name} {what} is not noticed in bfloat16")

        del tensors[large[0]]
        judged = self.made(judgement.Float32)
        judged.gradients(tensors)
        self.assertIn(large[0], judged.failures[0])

    def test_a_log_that_is_off_fails(self):
        steps = judgement.Judgement(self.folder, "train_all", None, judgement.Float32).steps
        log = [{"step": step["step"], "label_tokens": step["label_tokens"], "loss": float(step["loss_float64"]),
                "grad_norm": float(step["grad_norm_float64"])} for step in steps]
        for rule, change in ((judgement.Float32, 5e-6), (judgement.BFloat16, 4e-3)):
            def judged(entries):
                result = judgement.Judgement(self.folder, "train_all", None, rule)
                result.log(entries)
                return result.failures
            self.assertEqual(judged(log), [])
            self.assertTrue(judged(log[:-1]))
            for field in ("loss", "grad_norm"):
                self.assertTrue(judged([*log[:4], dict(log[4], **{field: log[4][field] * (1 + change)}), *log[5:]]), field)
                self.assertTrue(judged([*log[:4], dict(log[4], **{field: float("nan")}), *log[5:]]), field)
            self.assertTrue(judged([*log[:4], dict(log[4], label_tokens=1), *log[5:]]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
