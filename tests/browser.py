"""Chromium without a window, driven by its DevTools protocol over a pipe: one process for all pages of a test file."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Browser", "browser", "executable"]

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
FLAGS += ("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe")


def executable() -> str | None:
    """Where Chromium is, if it is anywhere."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab, which shows one page after the other."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._read, self._number = to, back, b"", 0
        self.events: list[dict[str, Any]] = []
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            if not (more := os.read(self._back, 1 << 20)):
                raise RuntimeError("Chromium ended")
            self._read += more
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        asked |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def show(self, path: Path) -> None:
        """Open a page."""
        self.events.clear()
        self._ask("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def window(self, width: int, scheme: str, height: int = 900) -> None:
        """Show the page in a window of a width, in the light or the dark scheme."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, script: str) -> Any:
        """The value of a script in the page."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """What the page wrote on the console, and what was thrown in it."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"].get("text")))
            if event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
                found.append(str(event["params"]["args"]))
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                found.append(event["params"]["entry"]["text"])
        return found

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(taken["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    read_there, write_here = os.pipe()
    read_here, write_there = os.pipe()
    with tempfile.TemporaryDirectory() as profile:
        command = [str(executable()), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        null, ends = subprocess.DEVNULL, (read_there, write_there)

        def placed() -> None:
            """Chromium reads from descriptor 3 and writes to 4."""
            for descriptor, end in enumerate([os.dup(end) for end in ends], 3):
                os.dup2(end, descriptor)

        options: dict[str, Any] = {"stdin": null, "stdout": null, "stderr": null, "pass_fds": (3, 4)}
        process = subprocess.Popen(command, preexec_fn=placed, **options)
        for end in ends:
            os.close(end)
        try:
            yield Browser(write_here, read_here)
        finally:
            process.kill()
            process.wait()
            os.close(write_here)
            os.close(read_here)
