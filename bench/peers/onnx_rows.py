#!/usr/bin/env python3
"""ONNX Runtime as the peer of `lathe bench models`: answers a line of JSON with a line of JSON. {"model", "inputs": name to npy
file} loads and warms up; {"seconds"} runs for that long and gives the best time of a call. As many threads as the process may use."""

import json
import os
import sys
import time

import numpy
import onnxruntime

session, feeds = None, {}
for line in sys.stdin:
    question = json.loads(line)
    if "model" in question:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        begin = time.perf_counter()
        session = onnxruntime.InferenceSession(question["model"], options, providers=["CPUExecutionProvider"])
        loaded = time.perf_counter() - begin
        feeds = {name: numpy.load(file) for name, file in question["inputs"].items()}
        for _ in range(3):
            session.run(None, feeds)
        answer = {"load_ms": loaded * 1e3, "version": onnxruntime.__version__}
    else:
        best, end = float("inf"), time.perf_counter() + question["seconds"]
        while time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, feeds)
            best = min(best, time.perf_counter() - begin)
        answer = {"ms": best * 1e3}
    print(json.dumps(answer), flush=True)
