"""The page of an investigation in a real browser: nothing from elsewhere, no error, what it says can be seen, sides side by side, values
as a map of colours. Needs Python's playwright and a Chromium; LATHE_SCREENSHOT=file.png keeps what was seen."""

import json
import os
import pathlib
import shutil
import sqlite3
import sys
import unittest

import driver
import seeds

SKIPPED = 77  # what CTest takes for skipped

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: Python has no playwright (pip install playwright; scripts/setup.sh browser)")
    sys.exit(SKIPPED)
CHROMIUM = os.environ.get("LATHE_CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    print("skipped: there is no chromium on the PATH (apt-get install chromium; scripts/setup.sh browser), and LATHE_CHROMIUM names none")
    sys.exit(SKIPPED)

# A finding as the investigation of a kernel has them: rows of differences, one of them no number.
DIFFERENCE = [[0, 0, 0, 0], [0, 1, 4, 0], [0, 0, None, 0]]


def price(folder):
    seed = seeds.Seed(folder)
    seed.commit("a price", {"price.py": "def price(n):\n    return n + 1\n", "check.py": "from price import price\nassert price(1) == 2, 'wrong <price> & more'\n"})
    seed.noise(15)
    seed.commit("another price", {"price.py": "def price(n):\n    return n - 1\n"})
    seed.noise(16)
    return seed.write()


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = driver.Project(price)
        status, record = cls.project.json(None, "--", "python3", "check.py")
        assert status == 0, record
        cls.record = record
        with sqlite3.connect(cls.project.bank() / "store.sqlite") as store:
            (text,) = store.execute("SELECT finding FROM session WHERE id = ?", (record["id"],)).fetchone()
            finding = json.loads(text)
            finding["difference"] = DIFFERENCE
            store.execute("UPDATE session SET finding = ? WHERE id = ?", (json.dumps(finding), record["id"]))
        shown = cls.project.run("show", record["id"], options=["--open"], variables={"DISPLAY": ""})
        assert shown.returncode == 0, shown
        cls.page_file = pathlib.Path(record["folder"]) / "page.html"
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.project.remove()

    def opened(self, width=1200, height=900, **more):
        context = self.browser.new_context(viewport={"width": width, "height": height}, offline=True, **more)
        self.addCleanup(context.close)
        page = context.new_page()
        self.requests, self.errors = [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.goto(self.page_file.as_uri())
        return page

    def test_it_says_what_was_found_and_needs_nothing_else(self):
        page = self.opened()
        self.assertEqual(self.errors, [])
        self.assertEqual(self.requests, [self.page_file.as_uri()])
        self.assertIn(self.record["id"], page.title())
        self.assertTrue(page.locator("#verdict").is_visible())
        self.assertIn("found", page.locator("#verdict").inner_text())
        self.assertIn(self.record["verdict"]["cause"][:12], page.locator("#facts").inner_text())
        self.assertIn("wrong <price> & more", page.locator("#facts").inner_text())
        rows = page.locator("#hypotheses tr")
        self.assertGreater(rows.count(), 2)
        verdicts = {rows.nth(i).locator("td").first.inner_text() for i in range(1, rows.count())}
        self.assertIn("confirmed", verdicts)
        self.assertLessEqual(verdicts, {"confirmed", "refuted", "partial", "unknown"})
        lines = "e => { const all = document.createRange(); all.selectNodeContents(e); return all.getClientRects().length; }"
        for i in range(1, rows.count()):
            for cell in (rows.nth(i).locator("td").first, rows.nth(i).locator("td").last):
                self.assertEqual(cell.evaluate(lines), 1, cell.inner_text())
        if path := os.environ.get("LATHE_SCREENSHOT"):
            page.screenshot(path=path, full_page=True)

    def test_before_and_after_stand_side_by_side_and_the_guilty_line_is_marked(self):
        page = self.opened()
        sides = page.locator("#sides pre")
        self.assertEqual(sides.count(), 2)
        left, right = sides.nth(0).bounding_box(), sides.nth(1).bounding_box()
        self.assertEqual(left["y"], right["y"])
        self.assertLessEqual(left["x"] + left["width"], right["x"])
        marked = page.locator("#sides .changed")
        self.assertEqual(sorted(t.strip() for t in marked.all_inner_texts()), ["return n + 1", "return n - 1"])
        background = marked.first.evaluate("e => getComputedStyle(e).backgroundColor")
        self.assertNotEqual(background, sides.first.evaluate("e => getComputedStyle(e).backgroundColor"))

    def test_differences_are_a_map_of_colours(self):
        page = self.opened()
        cells = page.locator("#heat i")
        self.assertEqual(cells.count(), 12)
        boxes = [cells.nth(i).bounding_box() for i in range(12)]
        self.assertEqual(len({round(b["x"]) for b in boxes}), 4)
        self.assertEqual(len({round(b["y"]) for b in boxes}), 3)
        self.assertTrue(all(b["width"] > 1 and b["height"] > 1 for b in boxes))
        colours = [cells.nth(i).evaluate("e => getComputedStyle(e).backgroundColor") for i in range(12)]
        right, small, large, infinite = colours[0], colours[5], colours[6], colours[10]
        self.assertEqual(len({right, small, large, infinite}), 4, colours)
        self.assertEqual(colours.count(right), 9)
        self.assertEqual(cells.nth(6).get_attribute("title"), "4")

    def test_it_fits_a_narrow_window_and_dark_colours(self):
        page = self.opened(width=420, color_scheme="dark")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 420)
        body = page.evaluate("getComputedStyle(document.body).color")
        light = self.opened().evaluate("getComputedStyle(document.body).color")
        self.assertNotEqual(body, light)


if __name__ == "__main__":
    driver.PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]], verbosity=2)
