# SPDX-License-Identifier: MIT
"""Tests the status page in a browser (Debian's chromium, chromium-driver and python3-selenium): it has no errors, shows
the numbers of /status.json, updates, and works narrow and wide, light and dark. PLENUM_PICTURES=DIR keeps pictures."""

import base64
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "loader", "serve"))

from service import ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    tap.skip_all("python3-selenium is not installed")
for tool in ("chromium", "chromedriver"):
    if not shutil.which(tool):
        tap.skip_all(f"{tool} is not installed")

PORT = 20000 + os.getpid() % 20000


class PageTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.serve("--http-port", str(PORT))
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--user-data-dir={self.folder}/profile"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.addCleanup(self.browser.quit)

    def show(self, width, scheme="light"):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def numbers(self):
        """Return the last /status.json that the page has read, and the texts that it shows at that moment."""
        return self.browser.execute_script("""
            const fields = root => Object.fromEntries(
                [...root.querySelectorAll("[data-field]")].map(e => [e.dataset.field, e.textContent]));
            return [window.looked, fields(document.getElementById("tiles")),
                    Object.fromEntries([...document.querySelectorAll("[data-stream]")].map(
                        e => [e.dataset.stream, fields(e)])),
                    Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)];""")

    def same(self, shown, number):
        """Assert that a shown number is the rounded form of `number`."""
        shown = shown.replace(",", "")
        self.assertLessEqual(abs(float(shown.split()[0]) - number), 0.5 if "." not in shown else 0.051, (shown, number))

    def test_page(self):
        """the page has no errors, shows the right numbers, updates, and fits the window"""
        for pause in ("40", "100"):
            self.feed("--epochs", "1000000", "--pause", pause)
        self.browser.get(f"http://localhost:{PORT}/")
        wait_for("streams and pictures", lambda: len(self.browser.find_elements("css selector", ".pictures img")) == 8)
        time.sleep(3)
        seen = set()
        for width in (1440, 390):
            for scheme in ("light", "dark"):
                self.show(width, scheme)
                time.sleep(1.5)
                status, tiles, streams, needed = self.numbers()
                self.assertLessEqual(needed, width, "nothing may be wider than the window")
                loader = status["loader"]
                self.same(tiles["samples_per_second"], loader["samples_per_second"])
                self.same(tiles["streams"], loader["streams"])
                self.same(tiles["render_busy"], 100 * loader["render_busy"])
                self.same(tiles["substituted_samples"], loader["substituted_samples"])
                self.assertEqual(set(streams), {str(s["id"]) for s in status["streams"]})
                self.assertEqual(len(streams), 2)
                for s in status["streams"]:
                    self.same(streams[str(s["id"])]["samples_per_second"], s["samples_per_second"])
                    self.same(streams[str(s["id"])]["trainer_waited"], 100 * s["trainer_waited"])
                    self.same(streams[str(s["id"])]["cores_enough"], s["cores_enough"])
                seen.add(loader["uptime_seconds"])
                if os.environ.get("PLENUM_PICTURES"):
                    whole = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
                    with open(os.path.join(os.environ["PLENUM_PICTURES"], f"page-{width}-{scheme}.png"), "wb") as f:
                        f.write(base64.b64decode(whole["data"]))
        self.assertEqual(len(seen), 4, "the page must update again and again")
        back = self.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(back, "rgb(13, 17, 23)", "the dark background")
        points = self.browser.execute_script(
            "return [...document.querySelectorAll('#chart polyline')].at(-1).getAttribute('points').split(' ').length")
        self.assertGreater(points, 4)
        errors = [e for e in self.browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [])


if __name__ == "__main__":
    tap.main()
