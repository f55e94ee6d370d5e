#!/usr/bin/env python3
"""What jinja2 makes of the templates and expressions of this folder: writes expected.json.

  tests/llm/chat_templates/expect.py     (needs jinja2)

The settings are those in which published chat templates are rendered. An entry is a text, or null where jinja2 refuses.
"""

import json
import os
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NOW = 1700000000
os.environ["TZ"] = "UTC"


def environment():
    import jinja2.ext
    import jinja2.nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(line)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda format: time.strftime(format, time.gmtime(NOW))
    return env


def rendered(env, template, variables):
    try:
        return env.from_string(template).render(**variables)
    except Exception:
        return None


def expectations():
    """name -> texts, one per case"""
    env = environment()
    cases = json.loads((FOLDER / "cases.json").read_text())
    out = {}
    for name, variables in cases["templates"].items():
        template = (FOLDER / f"{name}.jinja").read_text()
        out[name] = [rendered(env, template, v) for v in variables]
    out["expressions"] = [rendered(env, text, cases["variables"]) for text in cases["expressions"]]
    return out


if __name__ == "__main__":
    time.tzset()
    text = json.dumps(expectations(), ensure_ascii=False, indent=1)
    (FOLDER / "expected.json").write_text(text + "\n")
