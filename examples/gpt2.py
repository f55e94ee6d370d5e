"""GPT-2: text from a net with real weights, or a tiny random one.

  python examples/gpt2.py                                  a tiny random model: tokens, not text
  python examples/gpt2.py --weights model.safetensors      real weights, in the layout of the published files
"""

import argparse

from lathe import Tensor, TinyJit, Variable, nn


class Attention:
    def __init__(self, dim, heads, context):
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.heads, self.head_dim = heads, dim // heads
        self.cache = (Tensor.zeros(2, 1, context, heads, self.head_dim).contiguous().realize(),)

    def __call__(self, x, start):
        q, k, v = (t.reshape(1, -1, self.heads, self.head_dim) for t in self.c_attn(x).chunk(3, -1))
        tokens, cache = x.shape[1], self.cache[0]
        cache[:, :, start : start + tokens].assign(Tensor.stack(k, v))
        keys, values = cache[0, :, : start + tokens], cache[1, :, : start + tokens]
        mask = None
        if tokens > 1:  # a prompt: every token sees itself and those before
            mask = Tensor.ones(tokens, tokens).tril().reshape(1, 1, tokens, tokens) == 1
        out = q.transpose(1, 2).scaled_dot_product_attention(keys.transpose(1, 2), values.transpose(1, 2), mask)
        return self.c_proj(out.transpose(1, 2).reshape(1, -1, self.heads * self.head_dim))


class Block:
    def __init__(self, dim, heads, context):
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), Attention(dim, heads, context), nn.LayerNorm(dim)
        self.c_fc, self.mlp_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def __call__(self, x, start):
        x = x + self.attn(self.ln_1(x), start)
        return x + self.mlp_proj(self.c_fc(self.ln_2(x)).gelu())


class GPT2:
    def __init__(self, dim=768, heads=12, layers=12, vocabulary=50257, context=1024):
        self.wte, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.h = [Block(dim, heads, context) for _ in range(layers)]
        self.ln_f = nn.LayerNorm(dim)
        self.context = context
        self.step = TinyJit(self.forward)

    def forward(self, tokens, start):
        positions = Tensor.arange(self.context)[start : start + tokens.shape[1]]
        x = self.wte(tokens) + self.wpe(positions.reshape(1, -1))
        for block in self.h:
            x = block(x, start)
        return (self.ln_f(x)[:, -1] @ self.wte.weight.T).argmax(-1).realize()

    def generate(self, prompt, count):
        """The prompt and the most likely tokens after it."""
        tokens = list(prompt)
        nxt = self.forward(Tensor([tokens]), 0)
        for _ in range(count):
            tokens.append(nxt.item())
            position = Variable("position", 1, self.context - 1).bind(len(tokens) - 1)
            nxt = self.step(Tensor([tokens[-1:]]), position)
        return tokens


def load(model, path):
    """Weights of a published file: its linear layers are stored (in, out), Lathe's are (out, in)."""
    state = {}
    for name, value in nn.state.safe_load(path).items():
        name = name.removeprefix("transformer.").replace("mlp.c_fc", "c_fc").replace("mlp.c_proj", "mlp_proj")
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue
        linear = name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight", ".mlp_proj.weight"))
        state[name] = value.to(None).T if linear else value
    nn.state.load_state_dict(model, state, strict=False)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights")
    parser.add_argument("--prompt", default="464,3280,284", help="token numbers")
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args(arguments)
    prompt = [int(token) for token in args.prompt.split(",")]
    Tensor.manual_seed(0)
    if args.weights:
        model = GPT2()
        load(model, args.weights)
    else:
        model = GPT2(dim=32, heads=4, layers=2, vocabulary=512, context=64)
        prompt = [token % 512 for token in prompt]
    tokens = model.generate(prompt, args.count)
    print(" ".join(str(token) for token in tokens))
    return tokens


if __name__ == "__main__":
    main()
