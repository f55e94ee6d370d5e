#!/usr/bin/env python3
"""`lathe mcp`: the protocol line by line, and a whole investigation driven by the official Python client (package mcp).

  tests/investigations/mcp_test.py build/dev/bin/lathe
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
import unittest

import driver
import seeds

try:
    import anyio
    import mcp.client.client
    import mcp.client.stdio
except ImportError:
    mcp = None

MODERN = "2026-07-28"


class Lines:
    """A server and its lines."""

    def __init__(self, project):
        self.process = subprocess.Popen([driver.PROGRAM, "mcp", "--store", str(project.store)], cwd=project.tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=lambda: [self.answers.put(line) for line in self.process.stdout], daemon=True)
        self.reader.start()

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, method, params=None, number=1, modern=None):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        if modern:
            message["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": modern}
        self.send(json.dumps(message))
        return self.next()

    def next(self, seconds=60):
        return json.loads(self.answers.get(timeout=seconds))

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=20)
        self.reader.join()
        self.process.stdout.close()
        return status


class Mcp(unittest.TestCase):
    def project(self, make):
        project = driver.Project()
        project.tree.rmdir()
        project.made, project.failing, project.expected = make(project.tree)
        self.addCleanup(project.remove)
        return project

    def test_line_by_line(self):
        project = self.project(seeds.shell_quotes)
        server = Lines(project)
        begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        for asked, given in [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]:
            answer = server.ask("initialize", {**begin, "protocolVersion": asked})
            self.assertEqual(answer["result"]["protocolVersion"], given)
        server.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        self.assertEqual(server.ask("ping", number="text")["id"], "text")
        found = server.ask("server/discover", modern=MODERN)["result"]
        self.assertEqual(found["supportedVersions"], [MODERN])
        self.assertEqual(found["resultType"], "complete")
        refused = server.ask("server/discover", modern="2030-01-01")["error"]
        self.assertEqual((refused["code"], refused["data"]["supported"]), (-32022, [MODERN]))
        self.assertEqual({t["name"] for t in server.ask("tools/list")["result"]["tools"]}, {"start", "check", "add_observation", "cancel", "list"})
        for text, code in [("{", -32700), ("[]", -32600), ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
                           ('{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', -32601), ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 3}', -32602)]:  # fmt: skip
            server.send(text)
            self.assertEqual(server.next()["error"]["code"], code, text)
        for arguments, words in [({}, "nothing to investigate"), ({"command": "sh"}, "not of type array"), ({"commands": ["sh"]}, "no argument commands"),
                                 ({"command": ["sh"], "directory": "/nowhere"}, "not a directory"), ({"command": ["sh"], "jobs": -1}, "not of type number")]:  # fmt: skip
            result = server.ask("tools/call", {"name": "start", "arguments": arguments})["result"]
            self.assertTrue(result["isError"])
            self.assertIn(words, result["content"][0]["text"])
        self.assertEqual(server.ask("tools/call", {"name": "fix"})["error"]["code"], -32602)
        self.assertTrue(server.ask("tools/call", {"name": "check", "arguments": {"id": "session-1"}})["result"]["isError"])
        for uri in ["lathe://session/session-1/record", "lathe://session/../../etc/passwd", "file:///etc/passwd", ""]:
            self.assertEqual(server.ask("resources/read", {"uri": uri})["error"]["code"], -32002, uri)
        self.assertEqual(server.close(), 0)

    def test_cancel_while_another_request_waits(self):
        project = self.project(seeds.shell_quotes)
        server = Lines(project)
        for moment in (0, 0, 0.02, 0.05, 0.5):  # before its process runs, while that begins, and after
            session = server.ask("tools/call", {"name": "start", "arguments": {"command": ["sleep", "100"]}})["result"]["structuredContent"]["id"]
            server.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "check", "arguments": {"id": session, "wait_seconds": 40}}}))
            time.sleep(moment)
            server.send(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "cancel", "arguments": {"id": session}}}))
            answers = {a["id"]: a["result"]["structuredContent"] for a in (server.next(), server.next())}
            self.assertEqual(answers[3]["state"], "cancelled")
            if answers[2]["state"] != "cancelled":  # it had waited 40 seconds
                self.fail(answers)
            time.sleep(0.1)
            self.assertEqual(driver.wait_until_none(session), [])
            self.assertEqual(project.json("show", session)[1]["state"], "cancelled")
        self.assertEqual(server.close(), 0)

    def test_a_standard_client_drives_a_whole_investigation(self):
        if mcp is None:
            self.skipTest("the package mcp is not there; scripts/setup.sh python installs it")
        for mode, version in [("auto", MODERN), ("legacy", "2025-11-25")]:
            with self.subTest(mode=mode):
                project = self.project(seeds.shell_quotes)
                anyio.run(self.drive, project, mode, version)

    async def drive(self, project, mode, version):
        parameters = mcp.client.stdio.StdioServerParameters(command=driver.PROGRAM, args=["mcp", "--store", str(project.store)], cwd=str(project.tree), env={"PATH": os.environ["PATH"]})
        async with mcp.client.client.Client(parameters, mode=mode) as client:
            self.assertEqual(client.protocol_version, version)
            tools = await client.list_tools()
            self.assertEqual({t.name for t in tools.tools}, {"start", "check", "add_observation", "cancel", "list"})
            started = await client.call_tool("start", {"command": project.failing, "directory": str(project.tree)})
            self.assertFalse(started.is_error, started)
            session = started.structured_content["id"]
            observed = await client.call_tool("add_observation", {"id": session, "text": "not the environment, it is count.sh", "who": "the client"})
            self.assertFalse(observed.is_error, observed)
            listed = await client.call_tool("list", {})
            self.assertEqual([i["id"] for i in listed.structured_content["investigations"]], [session])
            for _ in range(10):
                checked = (await client.call_tool("check", {"id": session, "wait_seconds": 10})).structured_content
                if checked["state"] not in ("queued", "running"):
                    break
            self.assertEqual(checked["state"], "found", checked)
            self.assertTrue(driver.right(project.made, project.expected, checked["verdict"]), checked)
            self.assertTrue(checked["verdict"]["way_out_verified"])
            resources = {r.uri: r for r in (await client.list_resources()).resources}
            record = await client.read_resource(f"lathe://session/{session}/record")
            record = json.loads(record.contents[0].text)
            self.assertEqual(record["state"], "found")
            self.assertEqual(record["observations"][0]["who"], "the client")
            self.assertIn(f"lathe://session/{session}/repro", resources)
            repro = await client.read_resource(f"lathe://session/{session}/repro")
            self.assertIn("worktree", repro.contents[0].text)
            page = await client.read_resource(f"lathe://session/{session}/page")
            self.assertTrue(page.contents[0].text.startswith("<!DOCTYPE html>"))
            bank = await client.read_resource("lathe://bank/progress")
            self.assertIn(session, bank.contents[0].text)
            again = await client.call_tool("cancel", {"id": session})
            self.assertTrue(again.is_error)
            # Cancelled while it runs.
            other = (await client.call_tool("start", {"command": ["sleep", "100"]})).structured_content["id"]
            cancelled = await client.call_tool("cancel", {"id": other})
            self.assertEqual(cancelled.structured_content["state"], "cancelled")
            self.assertEqual(driver.wait_until_none(other), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    arguments = parser.parse_args()
    driver.PROGRAM = os.path.abspath(arguments.program)
    unittest.main(argv=[sys.argv[0]], verbosity=2)
