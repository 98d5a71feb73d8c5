"""What the benchmarks of planned pipelines share: models of a given balance, samples, and runs of one pinned thread a rank."""
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tarfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IMAGE, TOKENS_PER_TILE, TILE = 4, 64, 112
PREPROCESS = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.485, 0.456, 0.406],
              "image_std": [0.229, 0.224, 0.225], "size": {"height": TILE, "width": TILE}}


def call(*command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode}: {' '.join(map(str, command))}\n{result.stdout[-1000:]}{result.stderr[-2000:]}")
    return result.stdout


def internvl(vision, vision_layers, text, text_layers, vocabulary):
    """Configuration of an InternVL-style model: widths, layers, vocabulary. A tile is 257 vision and 64 text tokens."""
    return {
        "model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"], "image_token_id": IMAGE,
        "image_seq_length": TOKENS_PER_TILE, "downsample_ratio": 0.5, "projector_hidden_act": "gelu", "vision_feature_layer": -1,
        "vision_feature_select_strategy": "default", "tie_word_embeddings": False,
        "vision_config": {
            "model_type": "internvl_vision", "hidden_size": vision, "num_hidden_layers": vision_layers,
            "num_attention_heads": vision // 64, "intermediate_size": 4 * vision, "image_size": [TILE, TILE],
            "patch_size": [7, 7], "norm_type": "rms_norm", "use_qk_norm": True, "layer_scale_init_value": 0.1,
            "hidden_act": "gelu", "initializer_range": 0.05},
        "text_config": {
            "model_type": "qwen2", "hidden_size": text, "num_hidden_layers": text_layers, "num_attention_heads": text // 64,
            "num_key_value_heads": max(1, text // 128), "intermediate_size": 3 * text, "vocab_size": vocabulary,
            "max_position_embeddings": 4096, "tie_word_embeddings": False, "initializer_range": 0.05}}


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


class Model:
    """A model, exported once into the folder, and data for it: `lengths` are (tiles, tokens) of the samples."""

    def __init__(self, folder, config):
        self.folder, self.config = folder, config
        self.onnx = os.path.join(folder, "model", "model.onnx")
        self.weights = os.path.join(folder, "model", "model.safetensors")
        self.preprocess = os.path.join(folder, "preprocessor_config.json")

    def export(self):
        """The process that exports, or None where that has been done."""
        os.makedirs(self.folder, exist_ok=True)
        with open(self.preprocess, "w") as file:
            json.dump(PREPROCESS, file)
        if os.path.exists(self.onnx):
            return None
        config = os.path.join(self.folder, "config.json")
        with open(config, "w") as file:
            json.dump(self.config, file, indent=1)
        export = os.path.join(ROOT, "tools", "python", "export.py")
        return subprocess.Popen([sys.executable, export, config, "--out", os.path.join(self.folder, "model"), "--no-verify"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write_samples(self, lengths, name="data", labeled=0.3):
        """Shard and table of lengths; the last tokens of each sample, this share of it, have labels."""
        from PIL import Image
        random = np.random.default_rng(0)
        vocabulary = self.config["text_config"]["vocab_size"]
        path = os.path.join(self.folder, f"{name}-000000.tar")
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, (tiles, tokens) in enumerate(lengths):
                answer = random.integers(10, vocabulary, tokens - TOKENS_PER_TILE * tiles - 1).tolist()
                ids = [1] + [IMAGE] * (TOKENS_PER_TILE * int(tiles)) + answer
                count = min(len(answer), round(labeled * len(ids)))
                labels = [-100] * (len(ids) - count) + ids[len(ids) - count:]
                key = f"sample-{i:05d}"
                add(tar, f"{key}.json", json.dumps({"input_ids": ids, "labels": labels, "images": int(tiles)}).encode())
                for t in range(tiles):
                    picture = io.BytesIO()
                    Image.fromarray(random.integers(0, 256, (TILE, TILE, 3), dtype=np.uint8)).save(picture, "PNG", compress_level=1)
                    add(tar, f"{key}.{t}.png", picture.getvalue())
        table = os.path.join(self.folder, f"{name}.csv")
        with open(table, "w") as file:
            file.write("vit_num,token_num\n")
            file.writelines(f"{tiles},{tokens}\n" for tiles, tokens in lengths)
        return path, table


def export_all(models):
    processes = [(model, model.export()) for model in models]
    for model, process in processes:
        if process and process.wait() != 0:
            sys.exit(f"{model.folder}: export failed; run tools/python/export.py by hand to see why")


class Fixture(Model):
    """A model of test/data with its own samples; `keys` and `lengths` of these in order."""

    def __init__(self, folder, name):
        source = os.path.join(ROOT, "test", "data", name)
        self.folder, self.source, self.onnx = folder, source, os.path.join(source, "model.onnx")
        self.weights, self.preprocess = os.path.join(source, "model.safetensors"), os.path.join(source, "preprocessor_config.json")
        self.data, self.keys, lengths = os.path.join(source, "data-000000.tar"), [], []
        with tarfile.open(self.data) as tar:
            for member in tar:
                key, kind = member.name.split(".", 1)
                if kind == "json":
                    sample = json.load(tar.extractfile(member))
                    self.keys.append(key)
                    lengths.append((sample.get("images", 0), len(sample["input_ids"])))
        self.lengths = np.array(lengths)

    def export(self):
        os.makedirs(self.folder, exist_ok=True)


class Files:
    """A folder with model, weights, preprocessor_config.json and samples that something else made."""

    def __init__(self, folder):
        self.onnx, self.weights = (os.path.join(folder, "model", f"model.{kind}") for kind in ("onnx", "safetensors"))
        self.preprocess, self.data = (os.path.join(folder, name) for name in ("preprocessor_config.json", "data-000000.tar"))


def write_steps(path, groups, micro_batches, steps, keys=None):
    """A steps file whose micro-batches are `groups` (lists of sample numbers), in turn."""
    key = (lambda i: keys[i]) if keys else (lambda i: f"sample-{i:05d}")
    with open(path, "w") as file:
        for step in range(steps):
            chosen = [groups[(step * micro_batches + m) % len(groups)] for m in range(micro_batches)]
            file.write(json.dumps({"groups": [[key(i) for i in group] for group in chosen]}) + "\n")
    return path


class Tools:
    """The tools of a folder. `under`: a command put before mpirun, for priority over other work of the machine."""

    def __init__(self, folder, under=""):
        self.folder, self.under = folder, under.split()

    def compile(self, model, program, *flags):
        """The predicted step in ms and the stage table."""
        table = call(os.path.join(self.folder, "omnibal-compile"), model.onnx, *flags, *(["-o", program] if program else ["--dry-run"]))
        return float(re.search(r"predicted step: ([\d.]+) ms", table).group(1)), table

    def run_pinned(self, ranks, *command, stages=None):
        """omnibal-run under mpirun, one thread a rank, rank r on core r. With more ranks than cores, replicas of a stage (of
        `stages`) share a core: they compute and wait at the same times, so each runs at its share of the core's speed."""
        cores = os.cpu_count()
        core = f"OMPI_COMM_WORLD_LOCAL_RANK % {min(cores, stages or cores)}"
        pin = ["bash", "-c", f'exec taskset -c "$(({core}))" "$0" "$@"']
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return call(*self.under, "mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, *pin,
                    os.path.join(self.folder, "omnibal-run"), *command, "--threads", 1, env=environment)

    def calibrate(self, program, table, data, ranks=2, stages=None):
        self.run_pinned(ranks, program, "--calibrate", table, "--data", data, stages=stages)
        with open(table) as file:
            return json.load(file)

    def train(self, model, program, data, log, *flags, ranks=2, stages=None):
        """Log lines of a run."""
        self.run_pinned(ranks, program, "--weights", model.weights, "--data", data, "--preprocess", model.preprocess,
                        "--lr", "1e-3", "--log", log, *flags, stages=stages)
        with open(log) as file:
            return [json.loads(line) for line in file]


def typical(log, skip=2):
    """Median pipeline_ms after the first steps, and the relative median deviation from it."""
    times = [line["pipeline_ms"] for line in log[skip:]]
    middle = statistics.median(times)
    return middle, statistics.median(abs(t - middle) for t in times) / middle
