#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scrape.py FOLDER OPENMETRICS OLDER: a Prometheus and a node exporter (of FOLDER, as vm/fetch-prometheus unpacks them)
read the two files; Prometheus must have each sample of either, with its value, and the types that were declared."""

import functools
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

FOLDER, OPENMETRICS, OLDER = sys.argv[1:]
LIMIT = 60
sys.path.insert(0, FOLDER + "/usr/lib/python3/dist-packages")
from prometheus_client.openmetrics import parser as strict       # noqa: E402
from prometheus_client import parser as lenient                  # noqa: E402


class Server(http.server.SimpleHTTPRequestHandler):
    extensions_map = {"": "application/openmetrics-text; version=1.0.0; charset=utf-8"}

    def log_message(self, *args):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, **query):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def samples(families):
    return {(s.name, tuple(sorted(s.labels.items()))): float(s.value) for family in families for s in family.samples}


def wait(what, test):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if test():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"scrape.py: not within {LIMIT} s: {what}")


def main():
    with open(OPENMETRICS, encoding="utf-8") as text:
        expected = samples(strict.text_fd_to_metric_families(text))
    with open(OLDER, encoding="utf-8") as text:
        assert samples(lenient.text_fd_to_metric_families(text)) == expected, "the formats have other samples"
    assert len(expected) > 30, expected
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(place + "/textfile")
        shutil.copy(OLDER, place + "/textfile/peerdma.prom")
        shutil.copy(OPENMETRICS, place + "/metrics")
        handler = functools.partial(Server, directory=place)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        exporter, prometheus = free_port(), free_port()
        with open(place + "/prometheus.yml", "w", encoding="utf-8") as config:
            config.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n" + "".join(
                f"- {{job_name: {job}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
                for job, port in (("direct", server.server_port), ("node", exporter))))
        commands = [[FOLDER + "/usr/bin/prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                     f"--collector.textfile.directory={place}/textfile", f"--web.listen-address=127.0.0.1:{exporter}"],
                    [FOLDER + "/usr/bin/prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
                     f"--web.listen-address=127.0.0.1:{prometheus}", "--log.level=error"]]
        with open(place + "/log", "w", encoding="utf-8") as log:
            running = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
        try:
            for job in ("direct", "node"):
                check(prometheus, job, expected)
        finally:
            for program in running:
                program.terminate()
                program.wait()
            with open(place + "/log", encoding="utf-8") as log:
                sys.stderr.write(log.read() if sys.exc_info()[0] else "")


def check(port, job, expected):
    wait(f"a scrape of {job}", lambda: any(t["labels"]["job"] == job and t["health"] == "up"
                                           for t in ask(port, "targets")["activeTargets"]))
    found = {}
    for sample in ask(port, "query", query=f'{{job="{job}",__name__=~"peerdma_.*"}}')["result"]:
        labels = {key: value for key, value in sample["metric"].items() if key not in ("__name__", "job", "instance")}
        found[sample["metric"]["__name__"], tuple(sorted(labels.items()))] = float(sample["value"][1])
    # An empty label is none to Prometheus.
    wanted = {(name, tuple(label for label in labels if label[1])): value for (name, labels), value in expected.items()}
    assert found == wanted, f"{job}: {sorted(found.items() ^ wanted.items())}"
    types = {t["metric"]: t["type"] for t in ask(port, "targets/metadata", match_target=f'{{job="{job}"}}')
             if t["metric"].startswith("peerdma_")}
    # What Prometheus keeps of OpenMetrics is the family's name.
    counter = "peerdma_revocations" if job == "direct" else "peerdma_revocations_total"
    assert types[counter] == "counter" and types["peerdma_pins"] == "gauge", types
    print(f"{job}: {len(found)} samples")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))       # not without ending what was started
main()
