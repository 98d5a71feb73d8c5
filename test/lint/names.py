#!/usr/bin/env python3
"""The compiler knows models by their graph only: no model's, module's or parameter's name occurs in importers/ or
passes/, apart from the one table of module-path words (passes/layers/ModuleWords.*)."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = re.compile(r"^passes/layers/ModuleWords\.\w+$")

MODELS = r"internvl|intern_?vit|internlm|llava|siglip|clip_?vi[ts]|qwen|llama|gemma|idefics|smolvlm|mistral|vicuna|phi[34]"
MODULES = (r"vision_tower|vision_model|visual_encoder|multi_modal_projector|multimodal_projector|mm_projector|"
           r"language_model|text_model|lm_head|embed_tokens|self_attn|[qkvo]_proj|qkv_proj|out_proj|gate_proj|up_proj|"
           r"down_proj|fc[12]\b|input_layernorm|post_attention_layernorm|layernorm_(before|after)|pre_layrnorm|"
           r"post_layernorm|[qk]_norm\b|lambda_[12]|inv_freq|rotary_emb\b|embed_scale|class_embedding|cls_token|"
           r"patch_embed|position_embedding|encoder\.layers?\b")
# In a string only: elsewhere it is a field of a variable.
PATHS = r'"[\w.]*\bmodel\.layers\b'
WORD = re.compile(rf"({MODELS})|(?<![a-z_])({MODULES})|{PATHS}", re.IGNORECASE)


def problems_of(path, text):
    if TABLE.match(path):
        return []
    return [f"{path}:{number}: knows the name \"{match.group()}\"" for number, line in enumerate(text.splitlines(), 1)
            for match in [WORD.search(line)] if match]


def main():
    # The check sees what it is for, and nothing else.
    for line in ('if (name.contains("vision_tower"))', "isQwen2(model)", 'endsWith("q_proj.weight")', "// as Gemma does",
                 '"rotary_emb.weight"', 'startsWith("model.layers.")'):
        if not problems_of("passes/raise/A.cpp", line):
            sys.exit(f"names.py: does not see the name in: {line}")
    for line in ("LayerNormOp norm;", "buildClip", "Value position_ids", "language, vision", "rotary_embedding_dim",
                 "problem.model.layers[0]"):
        if problems_of("passes/raise/A.cpp", line):
            sys.exit(f"names.py: wrongly refuses: {line}")
    if problems_of("passes/layers/ModuleWords.cpp", '"vision_tower"'):
        sys.exit("names.py: refuses the table itself")
    found, count = [], 0
    for top in ("importers", "passes"):
        for folder, _, files in os.walk(os.path.join(ROOT, top)):
            for name in sorted(files):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    found += problems_of(os.path.relpath(path, ROOT), file.read())
                count += 1
    print("\n".join(found))
    if found or count == 0:
        sys.exit(f"names: {len(found)} places know a model's or module's name; the graph must tell, or the table "
                 "passes/layers/ModuleWords")
    print(f"names: {count} files know no model")


if __name__ == "__main__":
    main()
