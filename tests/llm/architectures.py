"""Small models of every architecture with random weights, written as their own projects' files, and what PyTorch
makes of them: for each a folder with config.json, model.safetensors and expected.json (tokens, the logits behind the
last; of encoders the pooled features). Run as: architectures.py FOLDER SEED. Each network is written out here on its own, in PyTorch's operations,
from its published definition.
"""

import json
import math
import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

VOCABULARY, DIM, FEED, LAYERS, HEADS, KEYS, CONTEXT = 40, 32, 48, 3, 4, 2, 64
TOKENS = [3, 17, 5, 39, 0, 21, 21, 8, 30, 11]


def save(folder, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


class Weights(dict):
    """Tensors by name, made at random when they are first asked for."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def get_or_make(self, name, *shape, around=0.0, spread=None):
        if name not in self:
            spread = spread if spread is not None else 1.4 / math.sqrt(shape[-1])
            self[name] = around + spread * torch.randn(*shape, generator=self.generator)
        return self[name]

    def linear(self, x, name, out, bias=False):
        y = x @ self.get_or_make(name + ".weight", out, x.shape[-1]).T
        return y + self.get_or_make(name + ".bias", out, spread=0.2) if bias else y

    def conv1d(self, x, name, out):  # GPT-2 stores (in, out)
        return x @ self.get_or_make(name + ".weight", x.shape[-1], out, spread=0.25) + self.get_or_make(name + ".bias", out, spread=0.2)

    def rms(self, x, name, eps, plus_one=False):
        w = self.get_or_make(name + ".weight", x.shape[-1], around=0.0 if plus_one else 1.0, spread=0.2)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1 + w if plus_one else w)

    def layer_norm(self, x, name, eps):
        w = self.get_or_make(name + ".weight", x.shape[-1], around=1.0, spread=0.2)
        b = self.get_or_make(name + ".bias", x.shape[-1], spread=0.2)
        return F.layer_norm(x, (x.shape[-1],), w, b, eps)


def turn(x, frequencies, scale=1.0):
    """x: (heads, time, head_dim); the first 2 * len(frequencies) features, one half against the other."""
    n = len(frequencies)
    angle = torch.arange(x.shape[1]).float()[:, None] * torch.tensor(frequencies).float()[None]
    cos, sin = angle.cos() * scale, angle.sin() * scale
    a, b, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def frequencies(dims, theta=10000.0):
    return [theta ** (-2 * i / dims) for i in range(dims // 2)]


def llama3(freqs, factor, low, high, first):
    out = []
    for f in freqs:
        wave = 2 * math.pi / f
        if wave > first / low:
            out.append(f / factor)
        elif wave < first / high:
            out.append(f)
        else:
            smooth = (first / wave - low) / (high - low)
            out.append((1 - smooth) * f / factor + smooth * f)
    return out


def heads(x, count):
    return x.reshape(x.shape[0], count, -1).transpose(0, 1)


def attend(q, k, v, scale, window=0, cap=0.0, causal=True):
    k = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
    v = v.repeat_interleave(q.shape[0] // v.shape[0], 0)
    score = q @ k.transpose(1, 2) * scale
    if cap:
        score = torch.tanh(score / cap) * cap
    time = q.shape[1]
    i, j = torch.arange(time)[:, None], torch.arange(time)[None]
    seen = (j <= i) if causal else torch.ones(time, time, dtype=torch.bool)
    if window:
        seen = seen & (i - j < window)
    score = score.masked_fill(~seen, float("-inf"))
    return (score.softmax(-1) @ v).transpose(0, 1).reshape(time, -1)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def base(model_type, **more):
    return {
        "model_type": model_type, "vocab_size": VOCABULARY, "hidden_size": DIM, "intermediate_size": FEED,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KEYS,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", **more,
    }  # fmt: skip


def gated_family(w, config, tokens, *, head_dim=DIM // HEADS, bias=False, qk_norm="", plus_one=False, act=F.silu, freqs=None,
                 window=lambda layer: 0, caps=(0.0, 0.0), after_norms=False, scale=None, embed=1.0, fused=False,
                 experts=None, tied=True):  # fmt: skip
    """LLaMA and what is made like it."""
    eps = config["rms_norm_eps"]
    freqs = freqs or frequencies(head_dim, config["rope_theta"])
    table = w.get_or_make("model.embed_tokens.weight", VOCABULARY, DIM, spread=0.7)
    x = table[tokens] * embed

    def norm(x, name):
        return w.rms(x, name, eps, plus_one)

    for i in range(LAYERS):
        p = f"model.layers.{i}."
        h = norm(x, p + "input_layernorm")
        if fused:
            qkv = w.linear(h, p + "self_attn.qkv_proj", (HEADS + 2 * KEYS) * head_dim)
            q, k, v = qkv.split([HEADS * head_dim, KEYS * head_dim, KEYS * head_dim], -1)
        else:
            q = w.linear(h, p + "self_attn.q_proj", HEADS * head_dim, bias)
            k = w.linear(h, p + "self_attn.k_proj", KEYS * head_dim, bias)
            v = w.linear(h, p + "self_attn.v_proj", KEYS * head_dim, bias)
        if qk_norm == "all":
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        q, k, v = heads(q, HEADS), heads(k, KEYS), heads(v, KEYS)
        if qk_norm == "head":
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        mixed = attend(turn(q, freqs), turn(k, freqs), v, scale or head_dim**-0.5, window(i), caps[0])
        mixed = w.linear(mixed, p + "self_attn.o_proj", DIM)
        if after_norms:
            x = x + norm(mixed, p + "post_attention_layernorm")
            h = norm(x, p + "pre_feedforward_layernorm")
        else:
            x = x + mixed
            h = norm(x, p + "post_attention_layernorm")
        if experts:
            fed = experts(w, p, h)
        elif fused:
            gate, up = w.linear(h, p + "mlp.gate_up_proj", 2 * FEED).chunk(2, -1)
            fed = w.linear(act(gate) * up, p + "mlp.down_proj", DIM)
        else:
            gate, up = w.linear(h, p + "mlp.gate_proj", FEED), w.linear(h, p + "mlp.up_proj", FEED)
            fed = w.linear(act(gate) * up, p + "mlp.down_proj", DIM)
        x = x + (norm(fed, p + "post_feedforward_layernorm") if after_norms else fed)
    x = norm(x, "model.norm")
    logits = x[-1] @ table.T if tied else w.linear(x[-1], "lm_head", VOCABULARY)
    return torch.tanh(logits / caps[1]) * caps[1] if caps[1] else logits


def mixture(gate_name, names, total, used, normalize):
    def run(w, p, h):
        share = w.linear(h, p + gate_name, total).softmax(-1)
        best, chosen = share.topk(used, -1)
        if normalize:
            best = best / best.sum(-1, keepdim=True)
        # Every expert of every row, so that all have weights; most have no share.
        out = torch.zeros_like(h)
        for e in range(total):
            gate, down, up = (p + names.format(e, n) for n in ("gate", "down", "up"))
            names_of = {"gate": gate, "down": down, "up": up}
            if "block_sparse_moe" in gate_name:
                names_of = {k: p + f"block_sparse_moe.experts.{e}.{v}" for k, v in {"gate": "w1", "down": "w2", "up": "w3"}.items()}
            wide = F.silu(w.linear(h, names_of["gate"], FEED)) * w.linear(h, names_of["up"], FEED)
            one = w.linear(wide, names_of["down"], DIM)
            out = out + one * (best * (chosen == e)).sum(-1, keepdim=True)
        return out

    return run


def phi(w, config, tokens):
    eps, head_dim = config["layer_norm_eps"], DIM // HEADS
    freqs = frequencies(head_dim // 2)
    x = w.get_or_make("model.embed_tokens.weight", VOCABULARY, DIM, spread=0.7)[tokens]
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        h = w.layer_norm(x, p + "input_layernorm", eps)
        q, k, v = (heads(w.linear(h, p + f"self_attn.{n}_proj", DIM, True), HEADS) for n in "qkv")
        mixed = w.linear(attend(turn(q, freqs), turn(k, freqs), v, head_dim**-0.5), p + "self_attn.dense", DIM, True)
        fed = w.linear(gelu_tanh(w.linear(h, p + "mlp.fc1", FEED, True)), p + "mlp.fc2", DIM, True)
        x = x + mixed + fed
    return w.linear(w.layer_norm(x, "model.final_layernorm", eps)[-1], "lm_head", VOCABULARY, True)


def gpt2(w, config, tokens):
    eps, table = config["layer_norm_epsilon"], w.get_or_make("wte.weight", VOCABULARY, DIM, spread=0.7)
    x = table[tokens] + w.get_or_make("wpe.weight", CONTEXT, DIM, spread=0.3)[: len(tokens)]
    for i in range(LAYERS):
        p = f"h.{i}."
        q, k, v = w.conv1d(w.layer_norm(x, p + "ln_1", eps), p + "attn.c_attn", 3 * DIM).chunk(3, -1)
        mixed = attend(heads(q, HEADS), heads(k, HEADS), heads(v, HEADS), (DIM // HEADS) ** -0.5)
        x = x + w.conv1d(mixed, p + "attn.c_proj", DIM)
        fed = w.conv1d(gelu_tanh(w.conv1d(w.layer_norm(x, p + "ln_2", eps), p + "mlp.c_fc", 4 * DIM)), p + "mlp.c_proj", DIM)
        x = x + fed
    return w.layer_norm(x, "ln_f", eps)[-1] @ table.T


def bert(w, config, tokens):
    eps = config["layer_norm_eps"]
    x = w.get_or_make("embeddings.word_embeddings.weight", VOCABULARY, DIM, spread=0.7)[tokens]
    x = x + w.get_or_make("embeddings.position_embeddings.weight", CONTEXT, DIM, spread=0.3)[: len(tokens)]
    x = x + w.get_or_make("embeddings.token_type_embeddings.weight", 2, DIM, spread=0.3)[0]
    x = w.layer_norm(x, "embeddings.LayerNorm", eps)
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        q, k, v = (heads(w.linear(x, p + f"attention.self.{n}", DIM, True), HEADS) for n in ("query", "key", "value"))
        mixed = w.linear(attend(q, k, v, (DIM // HEADS) ** -0.5, causal=False), p + "attention.output.dense", DIM, True)
        x = w.layer_norm(x + mixed, p + "attention.output.LayerNorm", eps)
        fed = w.linear(F.gelu(w.linear(x, p + "intermediate.dense", FEED, True)), p + "output.dense", DIM, True)
        x = w.layer_norm(x + fed, p + "output.LayerNorm", eps)
    return x.mean(0)


def cases():
    yield "llama", base("llama", tie_word_embeddings=True), lambda w, c, t: gated_family(w, c, t)
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
    yield "llama3", base("llama", rope_scaling=scaling, tie_word_embeddings=False, rope_theta=500.0), lambda w, c, t: gated_family(
        w, c, t, freqs=llama3(frequencies(DIM // HEADS, 500.0), 8.0, 1.0, 4.0, 16), tied=False)  # fmt: skip
    yield "mistral", base("mistral", sliding_window=4, tie_word_embeddings=False), lambda w, c, t: gated_family(
        w, c, t, window=lambda i: 4, tied=False)  # fmt: skip
    yield "mixtral", base("mixtral", num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False), lambda w, c, t: gated_family(
        w, c, t, experts=mixture("block_sparse_moe.gate", "block_sparse_moe.experts.{}.{}", 4, 2, True), tied=False)  # fmt: skip
    yield "qwen2", base("qwen2", tie_word_embeddings=True, use_sliding_window=False, sliding_window=4), lambda w, c, t: gated_family(
        w, c, t, bias=True)  # fmt: skip
    yield "qwen3", base("qwen3", head_dim=16, tie_word_embeddings=True), lambda w, c, t: gated_family(w, c, t, head_dim=16, qk_norm="head")
    yield "gemma", base("gemma", head_dim=16, hidden_act="gelu"), lambda w, c, t: gated_family(
        w, c, t, head_dim=16, plus_one=True, act=gelu_tanh, embed=DIM**0.5)  # fmt: skip
    yield "gemma2", base("gemma2", head_dim=16, hidden_activation="gelu_pytorch_tanh", sliding_window=4, query_pre_attn_scalar=20,
                         attn_logit_softcapping=5.0, final_logit_softcapping=3.0), lambda w, c, t: gated_family(
        w, c, t, head_dim=16, plus_one=True, act=gelu_tanh, embed=DIM**0.5, scale=20**-0.5, caps=(5.0, 3.0), after_norms=True,
        window=lambda i: 4 if i % 2 == 0 else 0)  # fmt: skip
    yield "phi2", {**base("phi", partial_rotary_factor=0.5, hidden_act="gelu_new", layer_norm_eps=1e-5, qk_layernorm=False,
                          tie_word_embeddings=False), "num_key_value_heads": HEADS}, phi  # fmt: skip
    yield "phi3", base("phi3", tie_word_embeddings=False, sliding_window=6), lambda w, c, t: gated_family(
        w, c, t, fused=True, window=lambda i: 6, tied=False)  # fmt: skip
    yield "olmoe", base("olmoe", num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, tie_word_embeddings=False), lambda w, c, t: gated_family(
        w, c, t, qk_norm="all", experts=mixture("mlp.gate", "mlp.experts.{}.{}_proj", 6, 3, False), tied=False)  # fmt: skip
    yield "gpt2", {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": DIM, "n_layer": LAYERS, "n_head": HEADS, "n_positions": CONTEXT,
                   "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}, gpt2  # fmt: skip
    yield "bert", {"model_type": "bert", "vocab_size": VOCABULARY, "hidden_size": DIM, "intermediate_size": FEED, "num_hidden_layers": LAYERS,
                   "num_attention_heads": HEADS, "max_position_embeddings": CONTEXT, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
                   "type_vocab_size": 2}, bert  # fmt: skip


def main():
    root, seed = Path(sys.argv[1]), int(sys.argv[2])
    for name, config, run in cases():
        weights = Weights(torch.Generator().manual_seed(seed))
        result = run(weights, config, torch.tensor(TOKENS))
        folder = root / name
        folder.mkdir(parents=True)
        save(folder, weights)
        (folder / "config.json").write_text(json.dumps(config))
        if name == "bert":
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        (folder / "expected.json").write_text(json.dumps({"tokens": TOKENS, "result": [float(x) for x in result]}))


main()
