#!/usr/bin/env python3
"""Opens every HTML page of a folder in headless Chromium, as wide as a desktop's and a telephone's window, in both colour
schemes, and refuses a page that is wider than its window, shows nothing or a broken picture, or whose script fails.

    tools/browser.py FOLDER [--pages N]

With --pages, N pages spread over the folder are opened. Without Chromium that is skipped, and said.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = [1280, 390]
#: CSS pixels of overflow that rounding explains.
SLACK = 1

#: Loads the pages one after the other in a frame and writes what it saw as JSON.
DRIVER = """<!doctype html><meta charset="utf-8"><pre id="seen"></pre><script>
const pages = PAGES, widths = WIDTHS, seen = [];
const load = (page, width) => new Promise(done => {
  const frame = document.createElement("iframe"), errors = [];
  frame.style.cssText = `border:0;height:900px;width:${width}px`;
  frame.onload = () => setTimeout(() => {
    const inside = frame.contentDocument;
    const broken = [...inside.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src);
    seen.push({ page, width, is: inside.documentElement.scrollWidth, text: inside.body.innerText.length, broken });
    frame.remove();
    done();
  }, 50);
  frame.src = page;
  document.body.append(frame);
});
(async () => {
  for (const page of pages) for (const width of widths) await load(page, width);
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>"""


def opened(browser: str, pages: list[Path], scheme: str) -> list[dict]:
    """What the browser saw of each page at each width."""
    with tempfile.TemporaryDirectory() as folder:
        driver = Path(folder) / "driver.html"
        script = DRIVER.replace("PAGES", json.dumps([page.as_uri() for page in pages])).replace("WIDTHS", str(WIDTHS))
        driver.write_text(script, encoding="utf-8")
        run = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                f"--user-data-dir={folder}/profile", f"--blink-settings=preferredColorScheme={scheme}",
                "--window-size=1400,1000", "--enable-logging=stderr", "--v=0",
                f"--virtual-time-budget={1000 * len(pages) * len(WIDTHS)}", "--timeout=120000", "--dump-dom", driver.as_uri(),
            ],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', run.stdout, re.DOTALL)
    if not found or not found[1]:
        sys.exit(f"tools/browser.py: {browser} did not come to an end with {len(pages)} pages\n{run.stderr[-2000:]}")
    errors = [line for line in run.stderr.splitlines() if "CONSOLE" in line and "Uncaught" in line]
    if errors:
        sys.exit("tools/browser.py: a page's script fails\n" + "\n".join(errors))
    return json.loads(html.unescape(found[1]))


def main() -> None:
    """Looks at the pages and tells of those that are not fit to be seen."""
    parser = argparse.ArgumentParser(description="Opens the pages of a folder in a browser, desktop and telephone.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, help="as many pages, spread over the folder (all)")
    chosen = parser.parse_args()
    pages = sorted(chosen.folder.resolve().rglob("*.html"))
    if not pages:
        sys.exit(f"tools/browser.py: no HTML page in {chosen.folder}")
    if chosen.pages:
        pages = pages[:: max(1, len(pages) // chosen.pages)]
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        skips = Path(__file__).with_name("skips.sh")
        subprocess.run([skips, "add", "tools/browser.py", "there is no Chromium (package chromium)"], check=True)
        return
    bad = 0
    for name, scheme in [("dark", "0"), ("light", "1")]:
        for seen in opened(browser, pages, scheme):
            faults = [f"picture {picture} is broken" for picture in seen["broken"]]
            if seen["is"] > seen["width"] + SLACK:
                faults.append(f"is {seen['is']} pixels wide")
            if not seen["text"]:
                faults.append("shows nothing")
            for fault in faults:
                bad += 1
                print(f"{seen['page']} at {seen['width']} pixels, {name}: {fault}", file=sys.stderr)
    if bad:
        sys.exit(1)
    print(f"{len(pages)} pages of {chosen.folder}, {' and '.join(map(str, WIDTHS))} pixels wide, dark and light: all fit")


main()
