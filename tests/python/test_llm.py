"""lathe.llm: templates against jinja2, models against published texts, requests in company."""

import importlib.util
import json
import os
import pathlib
import time

import pytest

llm = pytest.importorskip("lathe.llm", reason="a build without language models")
from lathe.errors import UserError  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "tests/llm/chat_templates"
DATA = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared/data"))
STORIES = DATA / "stories260K"

needs_stories = pytest.mark.skipif(
    not STORIES.exists(), reason=f"{STORIES} is not here; LATHE_TEST_DATA names the folder that holds it"
)


def expect_module():
    spec = importlib.util.spec_from_file_location("expect", TEMPLATES / "expect.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model():
    return llm.LLM(STORIES / "stories260K.bin", context=256, sequences=4)


def test_the_expected_texts_of_templates_are_those_of_jinja2():
    pytest.importorskip("jinja2")
    os.environ["TZ"] = "UTC"
    time.tzset()
    assert expect_module().expectations() == json.loads((TEMPLATES / "expected.json").read_text())


def test_templates_render_as_jinja2_does():
    cases = json.loads((TEMPLATES / "cases.json").read_text())
    expected = json.loads((TEMPLATES / "expected.json").read_text())
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name, variables in cases["templates"].items():
        template = llm.ChatTemplate((TEMPLATES / f"{name}.jinja").read_text())
        for given, want in zip(variables, expected[name], strict=True):
            if want is None:
                with pytest.raises(UserError, match="line [0-9]+: "):
                    template.render(now=1700000000, **given)
            else:
                assert template.render(now=1700000000, **given) == want


@needs_stories
def test_the_published_stories_are_written(model):
    for case in json.loads((STORIES / "expected_greedy.json").read_text())["cases"]:
        prompt, ids = case["prompt_ids"], case["greedy_ids"]
        out = model.generate(prompt, max_tokens=len(ids) - len(prompt))
        assert prompt + out.ids == ids[: len(prompt) + len(out.ids)]
        assert out.text and str(out) == out.text


@needs_stories
def test_a_stream_is_the_text_in_pieces_and_a_batch_is_each_alone(model):
    options = {"max_tokens": 30, "temperature": 0.9, "seed": 4, "top_k": 40}
    prompts = ["Once upon a time", "The dog", "Lily", "A big tree", "Tom and"]
    alone = [model.generate(p, **options).text for p in prompts]
    assert ["".join(model.stream(p, **options)) for p in prompts] == alone
    assert [g.text for g in model.generate(prompts, **options)] == alone
    assert model.stats()["pages_held"] == 0


@needs_stories
def test_a_stream_that_is_left_gives_its_pages_back(model):
    cancelled = model.stats()["cancelled"]
    for _ in model.stream("Once", max_tokens=100):
        break
    model.generate("Once", max_tokens=1)
    assert model.stats()["pages_held"] == 0
    assert model.stats()["cancelled"] == cancelled + 1


@needs_stories
def test_options_do_what_they_say(model):
    text = model.generate("Once upon a time", max_tokens=60).text
    stop = text.split(".")[0]
    assert model.generate("Once upon a time", max_tokens=60, stop=".").text == stop
    out = model.generate("Once upon a time", max_tokens=3, logprobs=2)
    assert out.finish == "length"
    assert [chosen[0] for chosen, _ in out.logprobs] == out.ids
    assert all(len(likeliest) == 2 and likeliest[0][0] == chosen[0] for chosen, likeliest in out.logprobs)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    out = model.generate("Once", max_tokens=60, json_schema=schema)
    assert out.finish == "stop" and isinstance(json.loads(out.text)["n"], int)
    chat = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert model.chat([{"role": "user", "content": "Once upon a time"}], chat, max_tokens=5).text
    with pytest.raises(UserError, match="no chat template"):
        model.chat([{"role": "user", "content": "x"}])


@needs_stories
def test_mistakes_are_refused(model):
    with pytest.raises(UserError, match="temperature"):
        model.generate("Once", temperature=-1)
    with pytest.raises(TypeError, match="warmth"):
        model.generate("Once", warmth=1)
    with pytest.raises(UserError, match="leaves no place"):
        model.generate([1] * 256)
    with pytest.raises(UserError, match="not supported in a schema"):
        model.generate("Once", json_schema={"type": "string", "pattern": "a"})
    with pytest.raises(FileNotFoundError):
        llm.LLM(STORIES / "absent.gguf")


def test_a_token_is_sampled_by_its_logits():
    assert llm.sample([0.0, 2.0, 1.0])[0] == 1
    assert llm.sample([0.0, 2.0, 1.0], tokens=[1], presence_penalty=5)[0] == 2
    assert {llm.sample([0.0, 0.0], temperature=1, seed=s)[0] for s in range(20)} == {0, 1}
