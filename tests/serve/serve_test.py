#!/usr/bin/env python3
"""`lathe serve` and `lathe chat` from outside.

  tests/serve/serve_test.py build/dev/bin/lathe [--seconds N] [--seed N]

Only loopback addresses. `--seconds` is how long the crowd of 32 clients stays (8; by hand 120).
"""

import argparse
import base64
import http.client
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared/data"))
MODEL = DATA / "stories260K/stories260K.bin"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'refuse' %}{{ raise_exception('not like this') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)
KEY = "correct horse"
options = None


def program(*arguments, **more):
    return subprocess.run([options.program, *map(str, arguments)], capture_output=True, text=True, timeout=300, **more)


def write_safetensors(file, tensors):
    """{name: (shape, numbers)} as float32."""
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_bert(folder):
    """A sentence encoder of one layer with random weights, as Hugging Face's libraries write it."""
    words = "[PAD] [UNK] [CLS] [SEP] once upon a time there was the dog ##s".split()
    wide, hidden, positions = 16, 24, 32
    rng = random.Random(1)
    tensors = {}

    def add(name, *shape, about=0.0):
        tensors[name] = (list(shape), [about + rng.gauss(0, 0.3) for _ in range(math.prod(shape))])

    def norm(name):
        add(name + ".weight", wide, about=1.0)
        add(name + ".bias", wide)

    def dense(name, out, inner):
        add(name + ".weight", out, inner)
        add(name + ".bias", out)

    for name, rows in (("word", len(words)), ("position", positions), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, wide)
    norm("embeddings.LayerNorm")
    layer = "encoder.layer.0."
    for name in ("query", "key", "value"):
        dense(f"{layer}attention.self.{name}", wide, wide)
    dense(layer + "attention.output.dense", wide, wide)
    norm(layer + "attention.output.LayerNorm")
    dense(layer + "intermediate.dense", hidden, wide)
    dense(layer + "output.dense", wide, hidden)
    norm(layer + "output.LayerNorm")
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = {
        "model_type": "bert", "vocab_size": len(words), "hidden_size": wide, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": hidden, "max_position_embeddings": positions, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


class Server:
    def __init__(self, *arguments, model=None):
        command = [options.program, "serve", str(model or MODEL), "--port", "0"]
        if model is None:
            template = pathlib.Path(tempfile.mkdtemp()) / "template.jinja"
            template.write_text(TEMPLATE)
            command += ["--chat-template", str(template)]
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127.0.0.1:(\d+)", line)
        if not found:
            raise RuntimeError(line + self.process.stdout.read())
        self.port = int(found[1])

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def call(self, method, path, body=None, headers=None, raw=False):
        c = self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return (r.status, text) if raw else (r.status, json.loads(text))

    def post(self, path, body, **more):
        return self.call("POST", path, body, **more)

    def events(self, path, body):
        c = self.connect()
        c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 200 and r.headers["Content-Type"].startswith("text/event-stream"), r.read()
        try:
            for line in r:
                line = line.decode().strip()
                if line == "data: [DONE]":
                    return
                if line:
                    yield json.loads(line.removeprefix("data: "))
            raise AssertionError("the stream has no end")
        finally:
            c.close()

    def metric(self, name):
        status, text = self.call("GET", "/metrics", raw=True)
        assert status == 200
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def wait_idle(self):
        for _ in range(600):
            if self.metric("lathe_requests_running") == 0 and self.metric("lathe_requests_waiting") == 0:
                return
            time.sleep(0.1)
        raise AssertionError("requests are left over")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest = self.process.communicate(timeout=60)[0]
        return self.process.returncode, rest


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--parallel", "8", "--context", "128", "--cache-mib", "1", "--body-mib", "1", "--name", "stories")

    @classmethod
    def tearDownClass(cls):
        status, rest = cls.server.stop()
        assert status == 0 and "stopped" in rest, rest

    def text(self, **more):
        return self.server.post("/v1/completions", {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40, **more})

    def test_models_health_and_page(self):
        s = self.server
        self.assertEqual(s.call("GET", "/v1/models")[1]["data"][0]["id"], "stories")
        self.assertEqual(s.call("GET", "/v1/models/stories")[0], 200)
        self.assertEqual(s.call("GET", "/v1/models/other")[0], 404)
        self.assertEqual(s.call("GET", "/health")[1], {"status": "ok"})
        status, page = s.call("GET", "/", raw=True)
        self.assertTrue(status == 200 and "<title>" in page)
        self.assertNotRegex(page, r"https?://")  # nothing from elsewhere

    def test_completions_and_their_options(self):
        status, whole = self.text()
        self.assertEqual(status, 200)
        choice = whole["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertTrue(choice["text"].strip())
        self.assertEqual(whole["usage"]["completion_tokens"], 40)
        stopped = self.text(stop=[".", "zzz"])[1]["choices"][0]
        self.assertEqual((stopped["text"], stopped["finish_reason"]), (choice["text"].split(".")[0], "stop"))
        self.assertEqual(self.text(echo=True)[1]["choices"][0]["text"], "Once upon a time" + choice["text"])
        several = self.text(prompt=["Once upon a time", "Lily"], n=2)[1]["choices"]
        self.assertEqual([c["index"] for c in several], [0, 1, 2, 3])
        self.assertEqual(several[0]["text"], choice["text"])
        drawn = [self.text(temperature=1, seed=s, top_k=30, top_p=0.9, min_p=0.01)[1]["choices"][0]["text"] for s in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        logs = self.text(logprobs=2, max_tokens=3)[1]["choices"][0]["logprobs"]
        self.assertEqual(len(logs["tokens"]), 3)
        self.assertTrue(all(x <= 0 for x in logs["token_logprobs"]) and len(logs["top_logprobs"][0]) == 2)

    def test_a_stream_is_the_answer_in_pieces(self):
        body = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40, "stop": ["friend"]}
        whole = self.server.post("/v1/completions", body)[1]
        pieces = list(self.server.events("/v1/completions", {**body, "stream_options": {"include_usage": True}}))
        self.assertEqual("".join(p["choices"][0]["text"] for p in pieces[:-1]), whole["choices"][0]["text"])
        self.assertEqual(pieces[-1]["usage"]["total_tokens"], whole["usage"]["total_tokens"])
        self.assertEqual(pieces[-2]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"])

    def test_chat(self):
        body = {"messages": [{"role": "user", "content": "Once upon a time"}], "temperature": 0, "max_completion_tokens": 20, "logprobs": True, "top_logprobs": 1}
        status, whole = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200)
        message = whole["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        self.assertEqual(len(whole["choices"][0]["logprobs"]["content"]), 20)
        pieces = list(self.server.events("/v1/chat/completions", body))
        self.assertEqual(pieces[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual("".join(p["choices"][0]["delta"].get("content", "") for p in pieces), message["content"])
        parts = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"}]}], "temperature": 0, "max_tokens": 20}
        self.assertEqual(self.server.post("/v1/chat/completions", parts)[1]["choices"][0]["message"]["content"], message["content"])

    def test_json_mode(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
        body = {"messages": [{"role": "user", "content": "Once"}], "seed": 3, "max_tokens": 100}
        format = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        out = json.loads(self.server.post("/v1/chat/completions", {**body, "response_format": format})[1]["choices"][0]["message"]["content"])
        self.assertTrue(isinstance(out["a"], int) and out["b"] in ("x", "y"))
        for seed in range(4):
            choice = self.server.post("/v1/chat/completions", {**body, "seed": seed, "response_format": {"type": "json_object"}})[1]["choices"][0]
            if choice["finish_reason"] == "stop":
                self.assertIsInstance(json.loads(choice["message"]["content"]), dict)

    def test_refusals(self):
        ask = {"prompt": "Once", "max_tokens": 2}
        user = [{"role": "user", "content": "x"}]
        for path, body, status, what in [
            ("/v1/completions", b"{", 400, "not JSON"),
            ("/v1/completions", b"[1]", 400, "not a JSON object"),
            ("/v1/completions", b"[" * 100000, 400, "nested"),
            ("/v1/completions", b" " * (1 << 21), 413, "large"),
            ("/v1/completions", {}, 400, "prompt is missing"),
            ("/v1/completions", {**ask, "model": "other"}, 404, "other"),
            ("/v1/completions", {**ask, "temperature": "hot"}, 400, "temperature"),
            ("/v1/completions", {**ask, "temperature": -1}, 400, "temperature"),
            ("/v1/completions", {**ask, "top_p": 0}, 400, "top_p"),
            ("/v1/completions", {**ask, "n": 0}, 400, "n is 0"),
            ("/v1/completions", {**ask, "n": 1000}, 400, "n is 1000"),
            ("/v1/completions", {**ask, "max_tokens": 0}, 400, "max_tokens"),
            ("/v1/completions", {**ask, "max_tokens": 1.5}, 400, "max_tokens"),
            ("/v1/completions", {**ask, "stop": [1]}, 400, "stop"),
            ("/v1/completions", {**ask, "stop": ""}, 400, "stop"),
            ("/v1/completions", {**ask, "logprobs": 99}, 400, "logprobs"),
            ("/v1/completions", {**ask, "suffix": "x"}, 400, "suffix"),
            ("/v1/completions", {**ask, "prompt": [99999]}, 400, "99999"),
            ("/v1/completions", {**ask, "prompt": [["x"]]}, 400, "prompt"),
            ("/v1/completions", {**ask, "prompt": "a b c " * 200}, 400, "context"),
            ("/v1/completions", {**ask, "response_format": {"type": "poem"}}, 400, "response_format"),
            ("/v1/chat/completions", {"messages": []}, 400, "messages"),
            ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "content"),
            ("/v1/chat/completions", {"messages": [{"role": "refuse", "content": "x"}]}, 400, "not like this"),
            ("/v1/chat/completions", {"messages": user, "tool_choice": "required"}, 400, "tool_choice"),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "text"),
            ("/v1/embeddings", {}, 400, "input is missing"),
            ("/v1/embeddings", {"input": ""}, 400, "empty"),
            ("/v1/embeddings", {"input": [[99999]]}, 400, "99999"),
            ("/v1/embeddings", {"input": {"a": 1}}, 400, "input"),
            ("/v1/embeddings", {"input": "x", "encoding_format": "int8"}, 400, "encoding_format"),
            ("/v1/embeddings", {"input": "x", "dimensions": 0}, 400, "dimensions"),
            ("/v1/embeddings", {"input": "x", "dimensions": 4096}, 400, "dimensions"),
            ("/v1/embeddings", {"input": "x", "model": "other"}, 404, "other"),
            ("/v1/embeddings", {"input": "a b c " * 200}, 400, "tokens"),
            ("/v1/embeddings", {"input": ["x"] * 3000}, 400, "3000"),
            ("/v1/nothing", {}, 404, "nothing at"),
        ]:
            got, answer = self.server.post(path, body)
            self.assertEqual(got, status, (path, body if len(str(body)) < 200 else "", answer))
            self.assertIn(what, answer["error"]["message"])
            self.assertIn("type", answer["error"])
        self.assertEqual(self.server.post("/v1/completions", ask, headers={"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.server.post("/v1/completions", ask, headers={"Host": "evil.example"})[0], 403)
        self.server.wait_idle()
        self.assertEqual(self.server.metric("lathe_pages_held"), 0)

    def test_embeddings(self):
        s = self.server
        status, one = s.post("/v1/embeddings", {"input": "Once upon a time"})
        self.assertEqual(status, 200, one)
        alone = one["data"][0]["embedding"]
        self.assertAlmostEqual(sum(x * x for x in alone), 1, places=5)
        self.assertEqual(one["usage"]["prompt_tokens"], self.text(max_tokens=1)[1]["usage"]["prompt_tokens"])
        several = s.post("/v1/embeddings", {"input": ["The dog", "Once upon a time", "Lily saw a big red ball in the park " * 2]})[1]["data"]
        self.assertEqual([d["index"] for d in several], [0, 1, 2])
        self.assertEqual(several[1]["embedding"], alone)  # whatever stands beside it
        self.assertNotEqual(several[0]["embedding"], alone)
        packed = s.post("/v1/embeddings", {"input": "Once upon a time", "encoding_format": "base64"})[1]["data"][0]["embedding"]
        self.assertEqual(list(struct.unpack(f"<{len(alone)}f", base64.b64decode(packed))), [struct.unpack("f", struct.pack("f", x))[0] for x in alone])
        short = s.post("/v1/embeddings", {"input": "Once upon a time", "dimensions": 8})[1]["data"][0]["embedding"]
        self.assertEqual(len(short), 8)
        length = math.sqrt(sum(x * x for x in alone[:8]))
        for got, want in zip(short, alone):
            self.assertAlmostEqual(got, want / length, places=5)

    def test_a_client_that_goes_away_is_forgotten(self):
        before = self.server.metric("lathe_requests_cancelled_total")
        for stream in (True, False):
            c = self.server.connect()
            body = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "n": 16, "stream": stream}
            c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            c.sock.shutdown(socket.SHUT_RDWR)
            c.close()
        for _ in range(300):  # the server may not have read the requests yet
            if self.server.metric("lathe_requests_cancelled_total") > before:
                break
            time.sleep(0.1)
        self.assertGreater(self.server.metric("lathe_requests_cancelled_total"), before)
        self.server.wait_idle()
        self.assertEqual(self.server.metric("lathe_pages_held"), 0)

    def test_a_crowd_gets_what_each_would_get_alone(self):
        seed = options.seed if options.seed is not None else random.randrange(1 << 30)
        print(f"crowd: seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        words = "Once upon a time there was Lily Tom the big dog ran to park and saw a red ball".split()
        asks = []
        for i in range(24):
            body = {"prompt": " ".join(rng.choice(words) for _ in range(rng.randrange(1, 30))), "max_tokens": rng.randrange(1, 60), "temperature": rng.choice([0, 0.8]), "seed": i, "top_p": 0.95}
            if i % 3 == 0:
                body["stop"] = ["."]
            asks.append((body, self.server.post("/v1/completions", body)[1]["choices"][0]["text"]))
        wrong, finished, memory = [], [0], []
        end = time.monotonic() + options.seconds

        def client(number):
            r = random.Random(seed * 100 + number)
            while time.monotonic() < end and not wrong:
                body, alone = r.choice(asks)
                how = r.random()
                try:
                    if how < 0.4:
                        status, answer = self.server.post("/v1/completions", body)
                        if status != 200 or answer["choices"][0]["text"] != alone:
                            wrong.append((body, alone, answer))
                        finished[0] += 1
                    elif how < 0.75:
                        text = "".join(p["choices"][0]["text"] for p in self.server.events("/v1/completions", body))
                        if text != alone:
                            wrong.append((body, alone, text))
                        finished[0] += 1
                    else:  # goes away in the middle
                        c = self.server.connect()
                        c.request("POST", "/v1/completions", json.dumps({**body, "stream": how < 0.9}), {"Content-Type": "application/json"})
                        if how < 0.85:
                            c.getresponse().read(r.randrange(1, 400))
                        c.close()
                except Exception as error:
                    wrong.append((body, error))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(32)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            time.sleep(0.5)
            memory.append(self.server.metric("process_resident_memory_bytes"))
        self.assertEqual(wrong, [])
        self.assertGreater(finished[0], 10)
        self.server.wait_idle()
        self.assertEqual(self.server.metric("lathe_pages_held"), 0)
        early, late = memory[len(memory) // 4], memory[-1]
        print(f"crowd: {finished[0]} answers, memory {early / 2**20:.0f} to {late / 2**20:.0f} MiB", file=sys.stderr)
        self.assertLess(late, early * 1.1 + (32 << 20))

    def test_the_openai_client(self):
        try:
            import openai
        except ImportError:
            self.skipTest("the openai package is not here; scripts/setup.sh python installs it")
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="any")
        self.assertEqual([m.id for m in client.models.list()], ["stories"])
        ask = {"model": "stories", "messages": [{"role": "user", "content": "Once upon a time"}], "temperature": 0, "max_tokens": 20}
        whole = client.chat.completions.create(**ask, extra_body={"top_k": 5})
        self.assertEqual(whole.usage.completion_tokens, 20)
        pieces = [p.choices[0].delta.content or "" for p in client.chat.completions.create(**ask, stream=True) if p.choices]
        self.assertEqual("".join(pieces), whole.choices[0].message.content)
        text = client.completions.create(model="stories", prompt="Once upon a time", temperature=0, max_tokens=20, logprobs=1)
        self.assertEqual(len(text.choices[0].logprobs.tokens), 20)
        self.assertTrue(text.choices[0].text)
        vectors = client.embeddings.create(model="stories", input=["Once upon a time", "The dog"])  # asks for base64
        plain = client.embeddings.create(model="stories", input="The dog", encoding_format="float")
        self.assertEqual(vectors.data[1].embedding, [struct.unpack("f", struct.pack("f", x))[0] for x in plain.data[0].embedding])
        with self.assertRaises(openai.BadRequestError):
            client.embeddings.create(model="stories", input="x", dimensions=100000)
        with self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(**{**ask, "model": "other"})


class Alone(unittest.TestCase):
    def test_an_encoder_is_served(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bert(pathlib.Path(folder))
            s = Server("--name", "tiny", model=folder)
            self.assertEqual(s.call("GET", "/v1/models")[1]["data"][0]["id"], "tiny")
            texts = ["once upon a time", "the dogs", "there was " * 9]
            status, answer = s.post("/v1/embeddings", {"input": texts, "model": "tiny"})
            self.assertEqual(status, 200, answer)
            vectors = [d["embedding"] for d in answer["data"]]
            self.assertEqual(answer["usage"]["total_tokens"], 6 + 5 + 20)
            for text, vector in zip(texts, vectors):
                self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
                self.assertEqual(s.post("/v1/embeddings", {"input": text})[1]["data"][0]["embedding"], vector)
            self.assertEqual(s.post("/v1/embeddings", {"input": "the " * 40})[0], 400)
            for path, body in (("/v1/completions", {"prompt": "once"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})):
                got, refused = s.post(path, body)
                self.assertEqual((got, refused["error"]["code"]), (400, "model_not_supported"))
            self.assertEqual(s.metric("lathe_embedded_texts_total"), 6)
            self.assertEqual(s.stop()[0], 0)

    def test_a_key_is_asked_for(self):
        s = Server("--api-key", KEY, "--cold", "--parallel", "1")
        ask = {"prompt": "Once", "max_tokens": 1}
        self.assertEqual(s.post("/v1/completions", ask)[0], 401)
        self.assertEqual(s.post("/v1/completions", ask, headers={"Authorization": f"Bearer {KEY}x"})[0], 401)
        self.assertEqual(s.post("/v1/completions", ask, headers={"Authorization": f"Bearer {KEY}"})[0], 200)
        self.assertEqual(s.call("GET", "/health")[0], 200)
        self.assertEqual(s.call("GET", "/metrics")[0], 401)
        self.assertEqual(s.stop(signal.SIGINT)[0], 0)

    def test_a_queue_has_an_end_and_a_stop_finishes_what_runs(self):
        s = Server("--queue", "2", "--parallel", "1", "--context", "512")
        long = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "temperature": 1, "seed": 1}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(s.post("/v1/completions", long))) for _ in range(6)]
        for t in threads:
            t.start()
        time.sleep(0.3)
        code, rest = s.stop()
        for t in threads:
            t.join()
        self.assertEqual(code, 0, rest)
        statuses = sorted(status for status, _ in answers)
        self.assertEqual(len(statuses), 6)
        self.assertIn(429, statuses)
        self.assertIn(200, statuses)
        self.assertTrue(set(statuses) <= {200, 429, 503}, statuses)

    def test_mistakes_are_answered_in_words(self):
        for arguments, what in [
            (["serve", MODEL, "--prot", "1"], "--prot"),
            (["serve", MODEL, "--port", "99999"], "99999"),
            (["serve", "absent.gguf"], "absent.gguf"),
            (["serve", MODEL, "--host", "203.0.113.1", "--cold"], "cannot listen"),
            (["chat", "absent.gguf", "--prompt", "x"], "absent.gguf"),
            (["chat", MODEL, "--prompt", "x", "--temperature", "-1"], "temperature"),
            (["chat", MODEL, "--prompt", "x", "--chat-template", "absent.jinja"], "absent.jinja"),
            (["chat"], "model"),
        ]:
            out = program(*arguments)
            self.assertEqual(out.returncode, 2, (arguments, out.stdout, out.stderr))
            self.assertIn(what, out.stderr)

    def test_chat_answers_off_a_terminal(self):
        expected = json.loads((DATA / "stories260K/expected_greedy.json").read_text())["cases"]
        case = next(c for c in expected if c["prompt"])
        out = program("chat", MODEL, "--prompt", case["prompt"], "--temperature", "0", "--max-tokens", "60", "--stats")
        self.assertEqual(out.returncode, 0, out.stderr)
        text = out.stdout.rstrip("\n")
        self.assertTrue(case["text"].replace(case["prompt"], "", 1).strip().startswith(text.strip()[:150]), (case["text"], text))
        self.assertIn("tokens/s", out.stderr)
        piped = program("chat", MODEL, "--temperature", "0", "--max-tokens", "60", input=case["prompt"] + "\n")
        self.assertEqual(piped.stdout, out.stdout)

    def test_chat_converses_on_a_terminal(self):
        import pty

        main, side = pty.openpty()
        process = subprocess.Popen([options.program, "chat", str(MODEL), "--max-tokens", "8", "--temperature", "0"], stdin=side, stdout=side, stderr=side)
        os.close(side)
        os.write(main, b"Once upon a time\n/frob\n/set temperature hot\n/set top_p 0\n/history\n/retry\n/exit\n")
        shown = b""
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        self.assertEqual(process.wait(timeout=60), 0, shown)
        for what in (b"/help lists commands", b"tokens/s", b"there is no command /frob", b"is not a number", b"top_p is 0", b"user: Once upon a time"):
            self.assertIn(what, shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int)
    options, rest = parser.parse_known_args()
    if not MODEL.exists():
        print(f"skipped: {MODEL} is not here; LATHE_TEST_DATA names the folder that holds it")
        sys.exit(77)
    if "serve" not in program("--help").stdout:
        print("skipped: this build has no server")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
