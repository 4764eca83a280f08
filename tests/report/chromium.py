"""A headless Chromium, driven over its debugging pipe: JSON messages with a NUL after each, on descriptors 3 and 4."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions")


def find() -> str | None:
    """The browser that is installed here."""
    return next((found for name in NAMES if (found := shutil.which(name))), str(MAC) if MAC.exists() else None)


@dataclass
class Page:
    """One tab. `requests` are the addresses that it asked for, `problems` what its console and scripts say."""

    _in: int
    _out: int
    session: str = ""
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    dialogs: int = 0
    _number: int = 0
    _events: list[Mapping[str, Any]] = field(default_factory=list)
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command and wait for its result; events that come meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]
            self._note(reply)

    def wait_for(self, method: str) -> None:
        """Until an event of this name has come."""
        while not any(event["method"] == method for event in self._events):
            self._note(self._read())

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            block = os.read(self._out, 1 << 20)
            assert block, "the browser is gone"
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _note(self, event: Mapping[str, Any]) -> None:
        self._events.append(event)
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled":
                self.problems.append(json.dumps(parameters))
            case "Page.javascriptDialogOpening":
                self.dialogs += 1

    def open(self, address: str, width: int, *, dark: bool = False) -> None:
        """Show a page in a window of this width."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self) -> bytes:
        """PNG of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])


@contextmanager
def browser(program: str) -> Iterator[Page]:
    """A tab of a browser that is started for it, with a home of its own, and ended afterwards."""
    commands, results = os.pipe(), os.pipe()

    def join() -> None:
        # Away from 3 and 4 first: one of the pipes may lie there already.
        read, write = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands[0], results[1]))
        os.dup2(read, 3)
        os.dup2(write, 4)

    with tempfile.TemporaryDirectory(prefix="mlxbatch-chromium-", ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [program, *_FLAGS, *_QUIET, "--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=join,
        )
        os.close(commands[0])
        os.close(results[1])
        try:
            page = Page(commands[1], results[0])
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            yield page
        finally:
            os.close(commands[1])
            os.close(results[0])
            process.kill()
            process.wait(30)
