"""Small configurations of Transformers' families, made from each family's own defaults by the meaning of field names.

Widths, depths, vocabularies and pictures shrink together so that the parts still fit; what a name does not tell is in
OVERRIDES. Used to measure which families are taken (families.py) and by tests; nothing here is needed to export a model.
"""
import copy
import re

HIDDEN, WIDE, HEADS, LAYERS, VOCABULARY, IMAGE, PATCH = 64, 96, 4, 2, 192, 32, 8
FIRST_SPECIAL = 160  # special tokens beyond the small vocabulary move here

# Field name (whole) -> value. The first expression that fits decides.
FIELDS = [
    (r"hidden_sizes|embed_dims", None),
    (r"(moe|expert|shared_expert|shared_experts|share_expert|shared)_?(intermediate_size|dim|hidden_size)", 32),
    (r".*intermediate_size.*|.*ffn_dim|d_ff|mlp_dim", WIDE),
    (r"num_key_value_heads|swa_num_key_value_heads|num_kv_heads", 2),
    (r".*num_attention_heads|num_heads|.*attention_heads|n_heads|resampler_n_heads|.*index_n_heads", HEADS),
    (r"(swa_|global_|index_)?head_dim|kv_channels|resampler_head_dim|v_head_dim|qk_nope_head_dim|d_kv", HIDDEN // HEADS),
    (r"qk_rope_head_dim", HIDDEN // HEADS // 2),
    (r"qk_head_dim", HIDDEN // HEADS + HIDDEN // HEADS // 2),
    (r"linear_(key|value)_head_dim|linear_head_dim|mamba_head_dim|ssm_state_size", 16),
    (r"linear_num_(key|value)_heads|linear_num_heads|mamba_num_heads", 4),
    (r".*lora_rank", 16),
    (r".*hidden_size|.*hidden_dim|d_model|(text_)?embed_dim|out_hidden_size|projection_dim|word_embed_proj_dim|"
     r"projector_(in|out)put_dim|.*merged_hidden_size|adapter_out_dim|projection_hidden_size", HIDDEN),
    (r"num_hidden_layers|num_layers|n_layers?|depth|(en|de)coder_layers|num_(en|de)coder_layers|layers|resampler_depth",
     LAYERS),
    (r"vocab_size|unpadded_vocab_size|vocab_size_per_layer_input", VOCABULARY),
    (r"image_size|img_size|resolution", IMAGE),
    (r"patch_size", PATCH),
    (r"image_grid_pinpoints", [[IMAGE, 2 * IMAGE], [2 * IMAGE, IMAGE], [2 * IMAGE, 2 * IMAGE]]),
    (r"num_position_embeddings", (IMAGE // PATCH) ** 2),
    (r"max_position_embeddings|seq_len|max_target_positions|original_max_position_embeddings", 512),
    (r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_local_experts", 4),
    (r"num_experts_per_tok|moe_topk|moe_k|top_k", 2),
    (r"n_group|n_groups|topk_group", 1),
    (r"sliding_window|sliding_window_size|attention_chunk_size", 16),
    (r"first_k_dense_replace", 1),
    (r"(image_seq_length|mm_tokens_per_image|num_image_tokens|vision_soft_tokens_per_image)", 4),
    (r"resampler_n_latents|num_query_tokens|latent_query_num", 4),
    (r"window_size", 2 * PATCH * 2),
    (r"(fullatt_block_indexes|full_attn_idxs)", [1]),
    (r"deepstack_visual_indexes", [0]),
    (r"insert_layer_id", 0),
    (r"index_topk", 64),
    (r"query_pre_attn_scalar", HIDDEN // HEADS),
    (r"vision_feature_layer", lambda old: [-1] if isinstance(old, list) else max(old, -2)),
    (r"initializer_range", 0.08),
    (r"mrope_section", lambda old: [2, 3, 3] if old[0] <= old[-1] else [4, 2, 2]),
    (r".*dropout.*|.*drop_path.*|layerdrop", lambda old: 0.0 if isinstance(old, float) else old),
]
FIELDS = [(re.compile(pattern), value) for pattern, value in FIELDS]
PER_LAYER = re.compile(r"layer_types|mlp_layer_types|no_rope_layers|layers_block_type|indexer_types|layer_rope_theta|"
                       r"moe_layers|kv_source_layers|rope_scaling_layers|intermediate_layers_indices")
TOKEN = re.compile(r".*_(token_id|token_index|id)$")

# Family -> fields by dotted path, where names alone do not tell a size that fits.
SECTIONS = {"text_config.rope_parameters.mrope_section": [2, 3, 3]}
WINDOWS_OF_GEMMA = {"num_hidden_layers": LAYERS, "layer_types": ["sliding_attention", "full_attention"],
                    "global_head_dim": HIDDEN // HEADS}
OVERRIDES = {
    "qwen2_vl": SECTIONS, "qwen2_5_vl": SECTIONS, "glm4v": SECTIONS, "glm46v": SECTIONS,
    "glmga": SECTIONS, "glm_ocr": SECTIONS, "paddleocr_vl": SECTIONS,
    "qwen2_5_omni_thinker": {**SECTIONS, "vision_start_token_id": FIRST_SPECIAL + 20},
    "glm4v_moe": {"text_config.rope_parameters.mrope_section": [1, 1, 2]},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": FIRST_SPECIAL + 20},
    "aria": {"projector_patch_to_query_dict": {(IMAGE // PATCH) ** 2: 4}},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", "sparse"], "text_config.num_experts_per_tok": 2,
                      "vision_config.sam_config.downsample_channels": [WIDE, HIDDEN],
                      "vision_config.sam_config.image_size": 2 * IMAGE,
                      "vision_config.sam_config.global_attn_indexes": [1]},
    "ernie4_5_vl_moe": {"text_config.rope_parameters.mrope_section": [3, 3, 2]},
    "granite4_vision": {"deepstack_layer_map": [[-2, 0], [-1, 1]], "downsample_rate": "1/2", "spatial_target_layers": [2, 3],
                        "text_config.num_hidden_layers": 4},
    "granite_docling": {"vision_config.scale_factor": 2},
    "muse_glimmer": {"out_hidden_size": 4 * HIDDEN, "vision_config.pos_emb_height": 4, "vision_config.pos_emb_width": 4},
    "muse_spark": {"out_hidden_size": 4 * HIDDEN, "vision_config.pos_emb_height": 4, "vision_config.pos_emb_width": 4,
                   "vision_config.out_hidden_size": 4 * HIDDEN, "audio_config.hidden_sizes": [16, 16],
                   "audio_config.patch_sizes": [16, 6], "audio_config.depths": [1, 1]},
    "step3p7": {"text_config.sliding_window": 16, "text_config.layer_types": ["sliding_attention", "full_attention"],
                "text_config.mlp_layer_types": ["dense", "sparse"], "text_config.rope_parameters": None},
    "unlimited_ocr": {"vision_config.sam_config.downsample_channels": [WIDE, HIDDEN],
                      "vision_config.sam_config.image_size": 2 * IMAGE,
                      "vision_config.sam_config.global_attn_indexes": [1]},
    "gemma4": {"!vision_config": {}, "!text_config": WINDOWS_OF_GEMMA, "text_config.hidden_size_per_layer_input": 16,
               "vision_config.position_embedding_size": HIDDEN},
    "gemma4_unified": {"!vision_config": {}, "!text_config": WINDOWS_OF_GEMMA, "vision_config.mm_embed_dim": HIDDEN,
                       "vision_config.mm_posemb_size": HIDDEN, "vision_config.output_proj_dims": HIDDEN},
    "cohere_compass": {"text_config.rope_parameters": {"full_attention": {
        "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}},
    **{family: {"image_token_id": FIRST_SPECIAL + 20} for family in ("minicpmv4_6", "minicpmv4_7", "minicpm_ocr")},
    **{family: {"head_dim": HIDDEN // HEADS} for family in ("ministral", "hunyuan_v1_dense")},
    "nemotron": {"num_key_value_heads": 2},
    "deepseek_v3": {"head_dim": HIDDEN // HEADS // 2},
    "kimi_k25": {"text_config.head_dim": HIDDEN // HEADS // 2},
    "hunyuan_vl": {"text_config.head_dim": HIDDEN // HEADS, "vision_config.max_image_size": 2 * IMAGE,
                   "text_config.rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 2, 2, 2]}},
    "mllama": {"text_config.num_hidden_layers": 4, "text_config.cross_attention_layers": [1, 3],
               "vision_config.num_global_layers": 1, "vision_config.intermediate_layers_indices": [0, 1],
               "vision_config.vision_output_dim": 3 * HIDDEN},
    "llama4": {"vision_config.intermediate_size": 4 * HIDDEN, "vision_config.vision_output_dim": HIDDEN},
}


def of_first_layers(values):
    """What is said of single layers, of those that are left."""
    return {place: value for place, value in values.items() if str(place).isdigit() and int(place) < LAYERS}


def first_of_each(values, count):
    """So many entries of a per-layer list, every kind of entry among them if there is room."""
    kinds = list(dict.fromkeys(map(str, values)))
    chosen = [next(v for v in values if str(v) == kind) for kind in kinds][:count]
    return (list(values[:count - len(chosen)]) + chosen)[:count]


class Shrinker:
    def __init__(self):
        self.special = {}

    def token(self, value):
        if not isinstance(value, int) or isinstance(value, bool) or value < FIRST_SPECIAL:
            return value
        return self.special.setdefault(value, FIRST_SPECIAL + len(self.special) % (VOCABULARY - FIRST_SPECIAL))

    def value(self, name, old):
        if PER_LAYER.fullmatch(name) and isinstance(old, list) and old:
            return first_of_each(old, LAYERS)
        if name == "per_layer_config" and isinstance(old, dict):
            return of_first_layers(old)
        if isinstance(old, list) and len(old) > LAYERS and name == "intermediate_size":
            return [WIDE] * LAYERS
        for pattern, new in FIELDS:
            if pattern.fullmatch(name):
                if old is None or isinstance(old, (bool, str)) or (isinstance(old, list) and not callable(new) and
                                                                   not isinstance(new, list)):
                    break
                if callable(new):
                    return new(old)
                return copy.deepcopy(new) if new is not None else old
        if isinstance(old, dict):
            return self.fields(old)
        if TOKEN.fullmatch(name):
            return [self.token(v) for v in old] if isinstance(old, list) else self.token(old)
        return old

    def fields(self, values):
        result = {name: self.value(str(name), old) for name, old in values.items()}
        heads, kv = values.get("num_attention_heads"), values.get("num_key_value_heads")
        if isinstance(heads, int) and heads == kv:
            result["num_key_value_heads"] = HEADS
        return result


def put(values, path, value):
    *way, last = path.split(".")
    for name in way:
        values = values.setdefault(name, {})
    if value is None:
        values.pop(last, None)
    else:
        values[last] = value


def small_config(family):
    """A configuration of that family with some hundred thousand parameters."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    cls = CONFIG_MAPPING[family]
    overrides = OVERRIDES.get(family, {})
    start = {}
    for path, value in overrides.items():
        if path.startswith("!"):  # given to the class before anything else
            start[path[1:]] = value
    values = Shrinker().fields(cls(**start).to_dict())
    for name in ("transformers_version", "architectures", "_name_or_path", "dtype"):
        values.pop(name, None)
    for path, value in overrides.items():
        if not path.startswith("!"):
            put(values, path, value)
    return cls.from_dict(values)


def small_model(family, seed=0):
    """A model of that configuration whose every parameter matters."""
    from exporter import model as models
    config = small_config(family)
    for part in models.parts_of(config):
        part.dtype = "float32"
    return roughen(models.random_weights(config, seed, None), seed + 1)


def roughen(model, seed):
    """Parameters that all matter: none is zero or one throughout."""
    import torch
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()
