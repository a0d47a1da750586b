# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, driven over its debugging pipe with nothing but the standard library."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-extensions",
         "--remote-debugging-pipe", "--allow-file-access-from-files", "--force-device-scale-factor=1"]

COUNTING = """window.filledRectangles = 0;
const fillRect = CanvasRenderingContext2D.prototype.fillRect;
CanvasRenderingContext2D.prototype.fillRect = function (...box) {
  window.filledRectangles++;
  return fillRect.apply(this, box);
};"""


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. What it logs and asks for is kept in `problems` and `requests`."""

    def __init__(self, width=1500, height=1000):
        self.home = tempfile.mkdtemp(prefix="repro-check-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def hand_over():
            # Above 4 first: either pipe may already stand where the other has to go.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            while min(reading, writing) < 5:
                reading, writing = os.dup(reading), os.dup(writing)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [find(), *FLAGS, f"--user-data-dir={self.home}", f"--window-size={width},{height}",
             "about:blank"], preexec_fn=hand_over, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.last = 0
        self.buffer = b""
        self.problems = []
        self.requests = []
        self.session = None
        self.attach(width, height)

    def attach(self, width, height):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=COUNTING)
        self.resize(width, height)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has gone away")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        name, values = event.get("method"), event.get("params", {})
        if name == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])
        elif name == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif name == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append(str([a.get("value", a.get("description")) for a in values["args"]]))
        elif name == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    def call(self, method, **values):
        self.last += 1
        request = {"id": self.last, "method": method, "params": values}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") != self.last:
                self.note(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def run(self, script):
        """The value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def work(self):
        """How often the page has filled a rectangle of a canvas, and how often it was laid out: what it costs, on
        any machine."""
        metrics = {each["name"]: each["value"] for each in self.call("Performance.getMetrics")["metrics"]}
        return self.run("window.filledRectangles"), metrics["LayoutCount"]

    def open(self, file: Path, part="", wait="document.documentElement?.dataset.ready !== undefined"):
        """Returns once the page says that it stands."""
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=Path(file).resolve().as_uri() + part)
        self.until(wait)

    def holds(self, condition):
        try:
            return self.run(f"Boolean({condition})")
        except RuntimeError as error:
            # The document that was asked has made way for another.
            if "context" not in str(error):
                raise
            return False

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.holds(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}; {self.problems}")
            time.sleep(0.01)

    def key(self, key, text=None):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **extra)

    def drag(self, start, end):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        common = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **common)
        for i in range(1, 5):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1,
                      x=start[0] + (end[0] - start[0]) * i / 4, y=start[1] + (end[1] - start[1]) * i / 4)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **common)

    def click(self, x, y):
        self.drag((x, y), (x, y))

    def screenshot(self, file, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        Path(file).write_bytes(base64.b64decode(data))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self):
        # Nothing of its profile is wanted, so that it need not end in good order.
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.home, ignore_errors=True)
