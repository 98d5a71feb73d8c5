"""Pages as a browser shows them: headless Chromium, without a network.

The browser is $OMNIBAL_BROWSER or the first of BROWSERS on PATH (tools/scripts/setup.sh installs one).
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

# Before the page's own scripts: what goes wrong in them. After them: what a test asks of the page.
WATCH = "<script>const pageErrors = []; addEventListener('error', e => pageErrors.push(String(e.message)));</script>"
ANSWER = """<script>
const answer = document.createElement('pre');
answer.id = 'answer';
answer.textContent = JSON.stringify({errors: pageErrors, value: (() => { %s })()});
document.body.append(answer);
</script></body>"""

# Draws the picture and looks up pixels.
PIXELS = """<body><img id="picture" decoding="sync" src="data:image/png;base64,%s"><script>
const image = document.getElementById('picture');
addEventListener('load', () => {
  const canvas = document.createElement('canvas');
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data, counts = {};
  const at = (x, y) => [...data.slice(4 * (Math.round(y) * canvas.width + Math.round(x)), 4 * (Math.round(y) * canvas.width + Math.round(x)) + 3)];
  for (let i = 0; i < data.length; i += 4) {
    const color = (data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    counts[color] = (counts[color] || 0) + 1;
  }
  const answer = document.createElement('pre');
  answer.id = 'answer';
  answer.textContent = JSON.stringify({counts, points: %s.map(([x, y]) => at(x, y))});
  document.body.append(answer);
});
</script></body>"""


def find_browser():
    found = os.environ.get("OMNIBAL_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        sys.exit(f"no browser: install one of {', '.join(BROWSERS)} (tools/scripts/setup.sh does) or set OMNIBAL_BROWSER")
    return found


class Browser:
    """Headless, at a fixed size; `dark`: the reader prefers dark pages."""

    def __init__(self, folder, width=1280, height=1600, dark=False):
        self.folder, self.size, self.dark = folder, f"{width},{height}", dark
        self.program = find_browser()

    def run(self, *arguments):
        with tempfile.TemporaryDirectory() as profile:
            command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                       f"--user-data-dir={profile}", f"--window-size={self.size}", "--virtual-time-budget=10000",
                       f"--blink-settings=preferredColorScheme={0 if self.dark else 1}", *arguments]
            return subprocess.run(command, capture_output=True, timeout=100, check=True).stdout.decode()

    def answer(self, page):
        """The JSON in the element `answer` of a page, once its scripts have run."""
        path = os.path.join(self.folder, "asked.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        text = re.search(r'<pre id="answer">(.*?)</pre>', self.run("--dump-dom", "file://" + path), re.S)
        if not text:
            raise AssertionError("the page's scripts did not reach their end")
        return json.loads(text.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def ask(self, page, script):
        """The value of a script's `return` at the end of the page; an error in the page is one here."""
        page = page.replace("</head>", WATCH + "</head>", 1).replace("</body>", ANSWER % script, 1)
        answer = self.answer(page)
        if answer["errors"]:
            raise AssertionError(f"errors in the page: {answer['errors']}")
        return answer["value"]

    def picture(self, path):
        """A screenshot of a page's file, as PNG."""
        target = os.path.join(self.folder, "picture.png")
        self.run(f"--screenshot={target}", "file://" + os.path.abspath(path))
        with open(target, "rb") as file:
            return file.read()

    def pixels(self, png, points=()):
        """Numbers of pixels by color (0xRRGGBB), and the colors at places."""
        answer = self.answer(PIXELS % (base64.b64encode(png).decode(), json.dumps(list(points))))
        return {int(c): n for c, n in answer["counts"].items()}, [r << 16 | g << 8 | b for r, g, b in answer["points"]]
