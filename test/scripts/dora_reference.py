#!/usr/bin/env python3
"""Writes dora.json beside a model's adapters, and the folders that its runs begin with: ten steps of fine-tuning with
adapters that have magnitudes (DoRA), by PEFT.

    dora_reference.py test/data/tiny-internvl

All is as in lora_reference.py, and where frozen weights are quantized as in quantized_reference.py. `dora` begins at the
model itself; `dora-rslora` begins where magnitudes are no norms of rows.
"""
import argparse
import json
import shutil

import lora_reference
import quantized_reference

LAYERS, SAVED = "language.*(q|k|v|o|gate|up|down)_proj", "multi_modal_projector.linear_1|language_model.norm"
VARIANTS = {
    "dora": (["--lora", LAYERS, "--dora"], dict(use_dora=True), False),
    "dora-rslora": (["--lora", LAYERS + "$", "--dora", "--rslora", "--modules-to-save", SAVED],
                    dict(use_dora=True, use_rslora=True,
                         modules_to_save=["model.multi_modal_projector.linear_1", "model.language_model.norm"]), True),
}
# As CASES of quantized_reference.py.
QUANTIZED = {"dora-int8": ("int8", "dora", [], None), "dora-nf4": ("nf4", "dora", [], None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    lora_reference.torch.set_num_threads(1)
    lora_reference.VARIANTS.update(VARIANTS)
    out = f"{folder}/adapters"
    with open(f"{folder}/reference.json", encoding="utf-8") as file:
        optimizer = json.load(file)["optimizer"]
    result = {"optimizer": optimizer, "variants": {}, "quantized": {}}
    for variant in VARIANTS:
        shutil.rmtree(f"{out}/{variant}", ignore_errors=True)
        result["variants"][variant] = lora_reference.run(folder, variant, out)
    for name, case in QUANTIZED.items():
        result["quantized"][name] = quantized_reference.run(folder, name, case)
    with open(f"{out}/dora.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
