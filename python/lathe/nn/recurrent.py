"""Recurrent layers and attention as PyTorch's: its parameter names, arguments and results."""

import copy
import math

from lathe import _core
from lathe._core import LayerNorm, Module, Tensor, TransformerDecoderLayer, TransformerEncoderLayer
from lathe.errors import UserError
from lathe.nn.containers import ModuleList
from lathe.nn.module import Parameter
from lathe.nn.utils.rnn import PackedSequence, packed


def _weights(hidden, *shape):
    bound = 1 / math.sqrt(hidden)
    return Parameter(Tensor.uniform(*shape, low=-bound, high=bound))


class RNNCell(Module):
    """One step: tanh(W x + b + U h + c), or relu.

    >>> nn.RNNCell(3, 5)(Tensor.ones(2, 3)).shape
    (2, 5)
    """

    _training = None

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        super().__init__()
        if nonlinearity not in ("tanh", "relu"):
            raise UserError(f"lathe: RNNCell: {nonlinearity!r} is not a nonlinearity\n  help: tanh or relu")
        self.hidden_size, self.nonlinearity = hidden_size, nonlinearity
        self.weight_ih, self.weight_hh = _weights(hidden_size, hidden_size, input_size), _weights(hidden_size, hidden_size, hidden_size)
        self.bias_ih = _weights(hidden_size, hidden_size) if bias else None
        self.bias_hh = _weights(hidden_size, hidden_size) if bias else None

    def forward(self, input, hx=None):
        hidden = Tensor.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device) if hx is None else hx
        total = input.matmul(self.weight_ih.transpose(0, 1)) + hidden.matmul(self.weight_hh.transpose(0, 1))
        if self.bias_ih is not None:
            total = total + self.bias_ih + self.bias_hh
        return total.tanh() if self.nonlinearity == "tanh" else total.relu()

    def extra_repr(self):
        return f"{self.weight_ih.shape[1]}, {self.hidden_size}"


class _Recurrent(Module):
    """Layers over whole sequences, in one direction or both. A kind says how a step goes from its gates and state on."""

    _training = None
    _gates, _states = 1, 1

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0):
        super().__init__()
        if proj_size and self._states == 1:
            raise UserError(f"lathe: {type(self).__name__}: proj_size is there for LSTM alone")
        if not 0 <= proj_size < hidden_size:
            raise UserError(f"lathe: LSTM: proj_size is {proj_size}, which is not in 0..{hidden_size - 1}: below hidden_size, 0 for none")
        self.proj_size = proj_size
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        rows = self._gates * hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else self._output_size * (2 if bidirectional else 1)
            for end in ("", "_reverse")[: 2 if bidirectional else 1]:
                shapes = {"weight_ih": (rows, size), "weight_hh": (rows, self._output_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{end}", _weights(hidden_size, *shape))

    @property
    def _output_size(self):
        return self.proj_size or self.hidden_size

    def extra_repr(self):
        more = [f"{n}={getattr(self, n)}" for n in ("proj_size", "batch_first", "bidirectional", "dropout") if getattr(self, n)]
        layers = [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        return ", ".join([str(self.input_size), str(self.hidden_size), *layers, *more])

    def flatten_parameters(self):
        """Does nothing: the weights already have the needed layout."""

    def _direction(self, x, layer, end, state, inside=None):
        """One layer in one direction over x (time, batch, features). `inside` says which steps belong to a sequence: in the others
        its state stays."""
        part = lambda name: getattr(self, f"{name}_l{layer}{end}")  # noqa: E731
        inputs = x.matmul(part("weight_ih").transpose(0, 1))
        if self.bias:
            inputs = inputs + part("bias_ih")
        weight = part("weight_hh").transpose(0, 1)
        bias = part("bias_hh") if self.bias else None
        steps = range(x.shape[0] - 1, -1, -1) if end else range(x.shape[0])
        outputs = {}
        for t in steps:
            hidden = state[0].matmul(weight)
            before, state = state, self._step(inputs[t], hidden if bias is None else hidden + bias, state)
            if self.proj_size:
                state[0] = state[0].matmul(part("weight_hr").transpose(0, 1))
            if inside is not None:
                state = [inside[t].where(new, old) for new, old in zip(state, before)]
            outputs[t] = state[0]
        ordered = [outputs[t] for t in range(x.shape[0])]
        return ordered[0].stack(*ordered[1:], dim=0), state

    def _begin(self, x, hx):
        """The first states: (layers x directions, batch, size) each."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, x.shape[1], size) for size in (self._output_size, self.hidden_size)[: self._states]]
        if hx is None:
            return [Tensor.zeros(*shape, dtype=x.dtype, device=x.device) for shape in shapes]
        given = list(hx) if self._states > 1 else [hx]
        for state, shape in zip(given, shapes):
            if tuple(state.shape) != shape:
                raise UserError(f"lathe: {type(self).__name__}: the first state has shape {tuple(state.shape)}, needed is {shape}")
        return given

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        return self._run(input, hx)

    def _packed(self, input, hx):
        """A batch of sequences of several lengths."""
        first, self.batch_first = self.batch_first, True
        try:
            longest = max(input.lengths)
            inside = Tensor.arange(longest).reshape(-1, 1) < Tensor(input.lengths).reshape(1, -1)
            out, last = self._run(input.padded[:, :longest], hx, inside.unsqueeze(-1))
        finally:
            self.batch_first = first
        return packed(out, input.lengths), last

    def _run(self, input, hx, inside=None):
        single = input.ndim == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        if single and hx is not None:
            hx = tuple(h.unsqueeze(1) for h in hx) if self._states > 1 else hx.unsqueeze(1)
        if x.ndim != 3 or x.shape[-1] != self.input_size:
            raise UserError(
                f"lathe: {type(self).__name__}: the input has shape {tuple(input.shape)}, needed are 3 axes, the last of size {self.input_size}\n"
                f"  help: {'(batch, time, features)' if self.batch_first else '(time, batch, features); batch_first=True swaps the first two'}"
            )
        first = self._begin(x, hx)
        ends = ("", "_reverse") if self.bidirectional else ("",)
        last = []
        for layer in range(self.num_layers):
            parts = []
            for way, end in enumerate(ends):
                out, state = self._direction(x, layer, end, [s[layer * len(ends) + way] for s in first], inside)
                parts.append(out)
                last.append(state)
            x = parts[0] if len(parts) == 1 else parts[0].cat(parts[1], dim=-1)
            if self.dropout and layer + 1 < self.num_layers:
                from lathe.nn import functional as F

                x = F.dropout(x, self.dropout, self.training)
        states = [last[0][i].stack(*[s[i] for s in last[1:]], dim=0) for i in range(self._states)]
        if single:
            x, states = x.squeeze(1), [s.squeeze(1) for s in states]
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, (states[0] if self._states == 1 else tuple(states))


class RNN(_Recurrent):
    """Recurrent layers over sequences: outputs and the last states (layers, batch, hidden).

    >>> out, last = nn.RNN(3, 5)(Tensor.ones(4, 2, 3))
    >>> out.shape, last.shape
    ((4, 2, 5), (1, 2, 5))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False):
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        if nonlinearity not in ("tanh", "relu"):
            raise UserError(f"lathe: RNN: {nonlinearity!r} is not a nonlinearity\n  help: tanh or relu")
        self.nonlinearity = nonlinearity

    def _step(self, inputs, hidden, state):
        total = inputs + hidden
        return [total.tanh() if self.nonlinearity == "tanh" else total.relu()]


class GRU(_Recurrent):
    """GRU layers over sequences: outputs and the last states (layers, batch, hidden).

    >>> nn.GRU(3, 5)(Tensor.ones(4, 2, 3))[0].shape
    (4, 2, 5)
    """

    _gates = 3

    def _step(self, inputs, hidden, state):
        (ir, iz, inew), (hr, hz, hnew) = inputs.chunk(3, -1), hidden.chunk(3, -1)
        reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
        new = (inew + reset * hnew).tanh()
        return [new + update * (state[0] - new)]


class LSTM(_Recurrent):
    """LSTM layers over sequences: outputs and the last states (hidden, cell), each (layers, batch, hidden).

    >>> out, (hidden, cell) = nn.LSTM(3, 5)(Tensor.ones(4, 2, 3))
    >>> out.shape, cell.shape
    ((4, 2, 5), (1, 2, 5))

    With `proj_size` what a step hands on is multiplied by one more matrix, weight_hr, and has that size.
    """

    _gates, _states = 4, 2

    def _step(self, inputs, hidden, state):
        i, f, g, o = (inputs + hidden).chunk(4, -1)
        cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return [o.sigmoid() * cell.tanh(), cell]


class MultiheadAttention(Module):
    """Attention with PyTorch's packed weights and its masks (true where a position may not look): the output, and with
    `need_weights` the attention, averaged over the heads.

    >>> x = Tensor.ones(4, 1, 8)
    >>> out, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    >>> out.shape, weights.shape
    ((4, 1, 8), (1, 4, 4))
    """

    _training = None

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False):
        super().__init__()
        if embed_dim % num_heads:
            raise UserError(f"lathe: MultiheadAttention: {embed_dim} is not a multiple of {num_heads} heads")
        if add_bias_kv or add_zero_attn:
            raise UserError("lathe: MultiheadAttention: add_bias_kv and add_zero_attn are not there")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self._packed = self.kdim == embed_dim and self.vdim == embed_dim

        def xavier(rows, columns):
            bound = math.sqrt(6 / (rows + columns))
            return Parameter(Tensor.uniform(rows, columns, low=-bound, high=bound))

        if self._packed:
            self.in_proj_weight = xavier(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = xavier(embed_dim, embed_dim)
            self.k_proj_weight, self.v_proj_weight = xavier(embed_dim, self.kdim), xavier(embed_dim, self.vdim)
        self.in_proj_bias = Parameter(Tensor.zeros(3 * embed_dim)) if bias else None
        self.out_proj = _core.Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Parameter(Tensor.zeros(embed_dim))

    def extra_repr(self):
        return f"{self.embed_dim}, {self.num_heads}"

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        single = query.ndim == 2
        if single:
            query, key, value = (t.unsqueeze(0 if self.batch_first else 1) for t in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        if not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        weights = self.in_proj_weight.chunk(3, 0) if self._packed else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3, 0)

        def heads(x, weight, bias):
            x = x.matmul(weight.transpose(0, 1))
            x = x if bias is None else x + bias
            return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.embed_dim // self.num_heads).transpose(1, 2)

        q, k, v = (heads(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        mask = self._mask(attn_mask, key_padding_mask, is_causal, q, k)
        dropout = self.dropout if self.training else 0.0
        attention = None
        if need_weights or dropout:
            scores = q.matmul(k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
            attention = (scores if mask is None else scores + mask).softmax(-1)
            if dropout:
                from lathe.nn import functional as F

                attention = F.dropout(attention, dropout)
            out = attention.matmul(v)
        else:
            out = q.scaled_dot_product_attention(k, v, mask)
        out = self.out_proj(out.transpose(1, 2).reshape(query.shape[0], query.shape[1], self.embed_dim))
        out = out if self.batch_first else out.transpose(0, 1)
        if single:
            out = out.squeeze(0 if self.batch_first else 1)
        if not need_weights:
            return out, None
        attention = attention.mean(1) if average_attn_weights else attention
        return out, attention.squeeze(0) if single else attention

    def _mask(self, attn_mask, padding, causal, q, k):
        """All masks as one that is added to the scores, or None."""

        def added(mask):
            return mask.where(-math.inf, 0.0).cast(q.dtype) if str(mask.dtype) == "dtypes.bool" else mask.cast(q.dtype)

        total = None
        if attn_mask is not None:
            total = added(attn_mask)
            if total.ndim == 3:
                total = total.reshape(q.shape[0], self.num_heads, *total.shape[1:])
        elif causal:
            ahead = Tensor.ones(q.shape[2], k.shape[2], dtype="bool", device=q.device).triu(1)
            total = added(ahead)
        if padding is not None:
            blocked = added(padding).reshape(padding.shape[0], 1, 1, padding.shape[1])
            total = blocked if total is None else total + blocked
        return total


def _copies(layer, count):
    """Layers like this one with weights of their own."""
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Encoder layers one after the other.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
    >>> nn.TransformerEncoder(layer, 2)(Tensor.ones(4, 1, 8)).shape
    (4, 1, 8)
    """

    _training = None

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(encoder_layer, num_layers), num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal) and mask is None)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Decoder layers one after the other.

    >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
    >>> nn.TransformerDecoder(layer, 2)(Tensor.ones(3, 1, 8), Tensor.ones(4, 1, 8)).shape
    (3, 1, 8)
    """

    _training = None

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(decoder_layer, num_layers), num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=None):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, bool(tgt_is_causal) and tgt_mask is None)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder.

    >>> net = nn.Transformer(8, 2, 1, 1, 16)
    >>> net(Tensor.ones(4, 1, 8), Tensor.ones(3, 1, 8)).shape
    (3, 1, 8)
    """

    _training = None

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation="relu", custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False):  # fmt: skip
        super().__init__()
        options = dict(dim_feedforward=dim_feedforward, dropout=dropout, activation=activation, layer_norm_eps=layer_norm_eps,
                       batch_first=batch_first, norm_first=norm_first)  # fmt: skip
        norm = lambda: LayerNorm(d_model, eps=layer_norm_eps)  # noqa: E731
        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(d_model, nhead, **options), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(d_model, nhead, **options), num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None):  # fmt: skip
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf above the diagonal: a position looks at those before it."""
        return Tensor.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)


__all__ = ["GRU", "LSTM", "MultiheadAttention", "RNN", "RNNCell", "Transformer", "TransformerDecoder", "TransformerEncoder"]
