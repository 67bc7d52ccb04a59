# SPDX-License-Identifier: MIT
"""Debian's Prometheus scrapes a loader for longer than a minute: promtool accepts the metrics, and the rates that
Prometheus computes are those that the clients measure."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "loader", "serve"))

from service import ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402
from ports import free_port  # noqa: E402

for tool in ("prometheus", "promtool"):
    if not shutil.which(tool):
        tap.skip_all(f"{tool} is not installed")

SECONDS = 90  # the loader publishes once a second: over a minute, this alone could be an error of nearly 2 %
CONF = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: plenum
    static_configs: [{targets: ['localhost:PORT']}]
"""


class PrometheusTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.port, self.own = free_port(), free_port()
        self.serve("--http-port", str(self.port))

    def streams(self, *pauses):
        """Start feeds that keep running, and record when each of them receives its batches."""
        heard = []
        for pause in pauses:
            p = self.feed("--epochs", "1000000", "--pause", str(pause), "--verbose")
            times = []
            threading.Thread(target=lambda p=p, times=times: times.extend(time.time() for line in p.stderr
                                                                          if "batch" in line), daemon=True).start()
            heard.append((p, times))
        return heard

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            return answer.read().decode()

    def ask(self, query, when=None):
        words = {"query": query, **({"time": when} if when else {})}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.own}/api/v1/query?{urllib.parse.urlencode(words)}",
                                    timeout=20) as answer:
            return json.load(answer)["data"]["result"]

    def test_clean(self):
        """promtool check metrics prints nothing"""
        self.streams(20, 50)
        wait_for("streams", lambda: self.metrics().count("plenum_stream_samples_total{") == 2)
        done = subprocess.run(["promtool", "check", "metrics"], input=self.metrics(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_rates(self):
        """in a minute and a half, the rates differ by at most 2 % from those that the programs measure"""
        conf = os.path.join(self.folder, "prometheus.yml")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(CONF.replace("PORT", str(self.port)))
        with open(os.path.join(self.folder, "prometheus.log"), "w", encoding="utf-8") as log:
            prometheus = subprocess.Popen(["prometheus", f"--config.file={conf}",
                                           f"--storage.tsdb.path={self.folder}/tsdb",
                                           f"--web.listen-address=127.0.0.1:{self.own}"], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log)
        self.addCleanup(self.end, prometheus)
        heard = self.streams(25, 60)

        def scraped():
            try:
                return len(self.ask("plenum_stream_samples_total")) == 2
            except OSError:
                return False

        wait_for("the first scrape", scraped)
        time.sleep(SECONDS + 5)
        self.assertEqual([r["value"][1] for r in self.ask('up{job="plenum"}')], ["1"])
        end = time.time() - 2
        rates = {r["metric"]["client"]: float(r["value"][1])
                 for r in self.ask(f"rate(plenum_stream_samples_total[{SECONDS}s])", end)}
        (whole,) = self.ask(f"rate(plenum_samples_total[{SECONDS}s])", end)
        own = {}
        for p, times in heard:
            (client,) = [c for c in rates if f"(pid {p.pid})" in c]
            own[client] = 4 * sum(end - SECONDS <= t < end for t in times) / SECONDS
            print(f"# {client}: {own[client]:.2f} samples/s by its own count, {rates[client]:.2f} by Prometheus",
                  flush=True)
            self.assertLessEqual(abs(rates[client] / own[client] - 1), 0.02)
        self.assertLessEqual(abs(float(whole["value"][1]) / sum(own.values()) - 1), 0.02)
        # The metrics that operator.md recommends for alerts exist, and show no problem.
        self.assertEqual([r["value"][1] for r in self.ask("increase(plenum_substituted_samples_total[1m])")], ["0"])
        self.assertEqual([r["value"][1] for r in self.ask("increase(plenum_failed_batches_total[1m])")], ["0"])
        self.assertEqual([r["value"][1] for r in self.ask("plenum_stopping")], ["0"])
        waited = [float(r["value"][1]) for r in self.ask("plenum_stream_trainer_waited_ratio")]
        self.assertEqual(len(waited), 2)
        self.assertTrue(all(0 <= w <= 1 for w in waited), waited)
        # The histogram's sum and count give the mean, its buckets a quantile.
        (mean,) = self.ask("rate(plenum_render_seconds_sum[1m]) / rate(plenum_render_seconds_count[1m])")
        (top,) = self.ask("histogram_quantile(0.999, rate(plenum_render_seconds_bucket[1m]))")
        self.assertGreater(float(top["value"][1]), 0)
        self.assertLess(float(mean["value"][1]), 1)


if __name__ == "__main__":
    tap.main()
