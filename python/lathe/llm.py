"""Language models: load one, let it write, stream what it writes.

    from lathe.llm import LLM

    model = LLM("stories260K.bin")
    print(model.generate("Once upon a time", max_tokens=40))
    for text in model.stream("Once upon a time", temperature=0.8, seed=1):
        print(text, end="", flush=True)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from lathe import _core

try:
    from lathe._core import LlmEngine as _Engine
except ImportError:  # a build without libutf8proc or nlohmann-json
    raise ImportError("this build of lathe has no language models: it was made without libutf8proc") from None
from lathe.errors import UserError

__all__ = ["LLM", "ChatTemplate", "Encoder", "Generated", "sample"]


class ChatTemplate:
    """A chat template, as model files carry it: `render(messages)` is the text that the model is given."""

    def __init__(self, source: str):
        self.source = source
        self._template = _core.ChatTemplate(source)

    def render(self, messages=(), add_generation_prompt=True, now=None, **variables) -> str:
        values = {"messages": list(messages), "add_generation_prompt": add_generation_prompt, **variables}
        return self._template.render(json.dumps(values, ensure_ascii=False), None if now is None else int(now))


@dataclass
class Generated:
    """What a request gave. `str()` of it is its text; `logprobs` has (token, likeliest tokens) for each id."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    finish: str = ""
    logprobs: list = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def __str__(self):
        return self.text


class LLM:
    """The model of a GGUF file, of a folder with config.json and safetensors, or of a llama2.c checkpoint.

    `sequences` requests run in one batch at most; with `invariant` the same request gives the same tokens in any
    company. Sampling options are temperature (0: greedy), top_k, top_p, min_p, repetition_penalty,
    presence_penalty, frequency_penalty, logit_bias and seed.
    """

    def __init__(self, path, *, tokenizer="", device="", context=0, sequences=8, pages=0, invariant=True):
        self._engine = _Engine(path, str(tokenizer), device, context, sequences, pages, invariant)

    def encode(self, text: str, add_special=True) -> list[int]:
        return self._engine.encode(text, add_special)

    def decode(self, ids) -> str:
        return self._engine.decode(list(ids))

    @property
    def context(self) -> int:
        return self._engine.context

    @property
    def chat_template(self) -> ChatTemplate | None:
        source = self._engine.chat_template
        return ChatTemplate(source) if source else None

    def stats(self) -> dict:
        return self._engine.stats()

    def warm_up(self):
        """Compiles all that requests will need."""
        self._engine.warm_up()

    def updates(self, prompt, max_tokens=256, stop=(), logprobs=None, json_schema=None, json_object=False, **sampling):
        """Starts a request at once, and gives an iterator of dicts: text, ids, logprobs and, in the last, finish.

        Requests that were started together run in one batch, whichever of them is iterated.
        """
        ids = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        stops = [stop] if isinstance(stop, str) else list(stop)
        schema = "" if json_schema is None else json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
        stream = self._engine.start(ids, max_tokens, sampling, stops, logprobs, schema, json_object)
        return self._follow(stream)

    @staticmethod
    def _follow(stream):
        over = False
        try:
            while not over:
                update = stream.next()
                if update is None:
                    return
                over = update["finish"] is not None
                if update["finish"] == "failed":
                    raise UserError(update["error"])
                yield update
        finally:
            if not over:
                stream.cancel()

    def stream(self, prompt, **options) -> Iterator[str]:
        """The text as it is written, in whole characters; stopping to iterate ends the request."""
        for update in self.updates(prompt, **options):
            if update["text"]:
                yield update["text"]

    @staticmethod
    def _gathered(updates) -> Generated:
        out = Generated()
        for u in updates:
            out.text += u["text"]
            out.ids += u["ids"]
            out.logprobs += u["logprobs"]
            out.finish = u["finish"] or ""
            out.prompt_tokens, out.cached_tokens = u["prompt_tokens"], u["cached_tokens"]
        return out

    def generate(self, prompt, **options):
        """A Generated for a prompt (text or token ids), or a list of them, as one batch, for a list of texts."""
        if isinstance(prompt, (list, tuple)) and prompt and not isinstance(prompt[0], int):
            return [self._gathered(u) for u in [self.updates(p, **options) for p in prompt]]
        return self._gathered(self.updates(prompt, **options))

    def chat_prompt(self, messages, chat_template=None, **variables) -> list[int]:
        """The token ids of a conversation: dicts with role and content."""
        source = chat_template or self._engine.chat_template
        if not source:
            raise UserError("chat: the model has no chat template; chat_template= takes one")
        template = source if isinstance(source, ChatTemplate) else ChatTemplate(source)
        special = {
            name: "" if id is None else self._engine.piece(id)
            for name, id in (("bos_token", self._engine.begin_id), ("eos_token", self._engine.end_id))
        }
        return self.encode(template.render(messages, **{**special, **variables}), add_special=False)

    def chat(self, messages, chat_template=None, **options) -> Generated:
        """The assistant's next turn."""
        return self.generate(self.chat_prompt(messages, chat_template), **options)


class Encoder:
    """Vectors of texts, by a sentence encoder or by a model that writes text.

    `embed(texts)` gives a list of floats for each text (or one for a single text); with `invariant` a text has the
    same vector in any company.
    """

    def __init__(self, path, *, tokenizer="", device="", context=0, invariant=True):
        self._encoder = _core.LlmEncoder(path, str(tokenizer), device, context, invariant)

    def encode(self, text: str) -> list[int]:
        return self._encoder.encode(text)

    def embed(self, texts, unit_length=True):
        """Texts, or lists of token ids."""
        if isinstance(texts, str):
            return self.embed([texts], unit_length)[0]
        ids = [self.encode(text) if isinstance(text, str) else list(text) for text in texts]
        return self._encoder.embed(ids, unit_length)

    @property
    def context(self) -> int:
        return self._encoder.context

    @property
    def dim(self) -> int:
        return self._encoder.dim


def sample(logits, tokens=(), prompt=0, **options) -> tuple[int, float]:
    """A token by its logits, and its log probability; of `tokens`, the sequence so far, the first `prompt` were given."""
    return _core.llm_sample([float(x) for x in logits], list(tokens), prompt, options)
