#!/usr/bin/env python3
"""The models of the GPU benchmark: models.py NAME > config.json"""
import json
import sys

IMAGE, PATCH = 4, 14


def internvl(vision, text, tile=448):
    """InternVL-style: a tile of 448 x 448 is 1025 vision and 256 text tokens."""
    return {
        "model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"], "image_token_id": IMAGE,
        "image_seq_length": (tile // PATCH // 2) ** 2, "downsample_ratio": 0.5, "projector_hidden_act": "gelu",
        "vision_feature_layer": -1, "vision_feature_select_strategy": "default", "tie_word_embeddings": False,
        "vision_config": {
            "model_type": "internvl_vision", "image_size": [tile, tile], "patch_size": [PATCH, PATCH], "norm_type": "layer_norm",
            "use_qk_norm": False, "attention_bias": True, "layer_scale_init_value": 0.1, "hidden_act": "gelu", **vision},
        "text_config": {"model_type": "qwen2", "max_position_embeddings": 32768, "tie_word_embeddings": False, **text}}


def width(hidden, layers, heads, mlp, **more):
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": mlp, **more}


# "tiny" and "small" are for trying the scripts without a GPU.
VIT_300M = width(1024, 24, 16, 4096)
MODELS = {
    "tiny": internvl(width(64, 2, 4, 128), width(96, 3, 6, 160, num_key_value_heads=2, vocab_size=256), tile=56),
    "small": internvl(width(256, 4, 4, 1024), width(320, 6, 5, 896, num_key_value_heads=1, vocab_size=2048), tile=112),
    "0.3b": internvl(width(512, 12, 8, 2048), width(1024, 16, 16, 2816, num_key_value_heads=4, vocab_size=32768)),
    "1b": internvl(VIT_300M, width(896, 24, 14, 4864, num_key_value_heads=2, vocab_size=151674)),
    "2b": internvl(VIT_300M, width(2048, 24, 16, 8192, num_key_value_heads=8, vocab_size=92553)),
}



def learning_rate(name):
    """AdamW's first steps move every weight by about this: so much that a logit moves by a tenth or more a step, whatever the width."""
    return 0.1 / MODELS[name]["text_config"]["hidden_size"]


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in MODELS:
        sys.exit(f"usage: models.py {'|'.join(MODELS)} > config.json")
    json.dump(MODELS[sys.argv[1]], sys.stdout, indent=1)
