"""Hyper-parameters, and the nested config.json of the release (specification, sections 0.1 and 0.2)."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True)
class Vision:
    """The vision tower; names as in `vision_config`."""

    num_hidden_layers: int = 2
    hidden_size: int = 64
    num_attention_heads: int = 4
    intermediate_size: int = 128
    patch_size: int = 14
    rope_theta: float = 10000.0
    downsample_ratio: int = 3
    # Any picture becomes 3x3 to 5x5 cells of 42 pixels: what it was trained on.
    max_image_tokens: int = 32
    min_pixels: int = 126 * 126
    max_wh_ratio: float | None = None


@dataclass(frozen=True)
class Config:
    """The text model; names as in `text_config`. The values are nano's, where the release's are too large."""

    vocab_size: int = 2560
    hidden_size: int = 192
    num_hidden_layers: int = 8
    num_nextn_predict_layers: int = 3
    num_attention_heads: int = 6
    head_dim: int = 64
    qk_rope_head_dim: int = 32
    q_lora_rank: int = 96
    o_groups: int = 2
    o_lora_rank: int = 64
    sliding_window: int = 128
    rms_norm_eps: float = 1e-20
    max_position_embeddings: int = 8192
    n_routed_experts: int = 12
    num_experts_per_tok: int = 3
    moe_intermediate_size: int = 96
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 10.0
    # window, window + Engram | full 2, reuse 2 (+ Engram) | full 1 and candidate source, reuse, reindex, reuse | three stages
    compress_ratios: list[int] = field(default_factory=lambda: [0, 0, 2, 2, 1, 1, 1, 1, 0, 0, 0])
    kv_source_layer_ids: list[int] = field(default_factory=lambda: [2, 4])
    index_source_layer_ids: list[int] = field(default_factory=lambda: [2, 4, 6])
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    rope_factor: float = 16.0
    rope_beta_fast: float = 32.0
    rope_beta_slow: float = 1.0
    rope_original_length: int = 65536
    index_n_heads: int = 4
    index_head_dim: int = 32
    index_topk: int = 512
    candidate_source_layer_id: int = 4
    candidate_topk_blocks: int = 2048
    candidate_block_size: int = 8
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    engram_layer_ids: list[int] = field(default_factory=lambda: [1, 3])
    engram_vocab_size: int = 1000
    engram_num_embeddings: list[int] = field(default_factory=list)
    engram_max_ngram_size: int = 4
    engram_n_heads: int = 4
    engram_head_dim: int = 32
    engram_pad_token_id: int = 2
    engram_compressed_vocab_size: int = 0
    bos_token_id: int = 0
    eos_token_id: int = 1
    image_token_id: int = 0
    dspark_block_size: int = 5
    dspark_noise_token_id: int = 0
    dspark_target_layer_ids: list[int] = field(default_factory=lambda: [5, 6, 7])
    dspark_markov_rank: int = 32
    dspark_n_routed_experts: int = 4
    dspark_num_experts_per_tok: int = 2
    vision: Vision | None = field(default_factory=Vision)

    def ratio(self, layer: int) -> int:
        """Tokens per entry that the layer reads; 0 for window only and for the draft stages."""
        return self.compress_ratios[layer] if layer < len(self.compress_ratios) else 0

    def kv_source(self, layer: int) -> int:
        """The layer whose entries this one reads."""
        return max(source for source in self.kv_source_layer_ids if source <= layer)

    @property
    def engram_columns(self) -> int:
        return (self.engram_max_ngram_size - 1) * self.engram_n_heads

    def to_json(self) -> str:
        """The released, nested form."""
        text = asdict(self)
        vision = text.pop("vision")
        rope = {
            "type": "yarn",
            "factor": text.pop("rope_factor"),
            "beta_fast": text.pop("rope_beta_fast"),
            "beta_slow": text.pop("rope_beta_slow"),
            "original_max_position_embeddings": text.pop("rope_original_length"),
        }
        ids = {key: text.pop(key) for key in ("bos_token_id", "eos_token_id", "image_token_id")}
        text |= {
            "model_type": "deepseek_v41_text", "num_key_value_heads": 1, "n_shared_experts": 1, "scoring_func": "sqrtsoftplus",
            "topk_method": "noaux_tc", "norm_topk_prob": True, "hidden_act": "silu", "attention_bias": False,
            "attention_dropout": 0.0, "use_cache": True, "rope_scaling": rope,
        }
        root = {
            "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16", **ids,
            "pad_token_id": self.engram_pad_token_id, "tie_word_embeddings": False,
            "quantization_config": {
                "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
                "expert_dtype": "fp4",
            },
            "text_config": text,
        }
        if vision:
            root["vision_config"] = {"model_type": "deepseek_v41_vision", **vision}
        return json.dumps(root, indent=2) + "\n"

    @staticmethod
    def from_json(path: Path | str) -> "Config":
        """Reads a config.json of the released form; keys that nobody here needs are left out."""
        root = json.loads(Path(path).read_text())
        text = {**{k: root[k] for k in ("bos_token_id", "eos_token_id", "image_token_id")}, **root["text_config"]}
        rope = text.pop("rope_scaling")
        text |= {
            "rope_factor": rope["factor"], "rope_beta_fast": rope["beta_fast"], "rope_beta_slow": rope["beta_slow"],
            "rope_original_length": rope["original_max_position_embeddings"],
        }
        known = lambda cls, values: {f.name: values[f.name] for f in fields(cls) if f.name in values}  # noqa: E731
        vision = root.get("vision_config")
        return Config(**known(Config, text), **{"vision": Vision(**known(Vision, vision)) if vision else None})
