"""A headless Chromium that is controlled by the DevTools protocol over a pipe, with the standard library only."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_TIMEOUT = 60.0
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--window-size=1300,900", "--remote-debugging-pipe",
]  # fmt: skip


class Chromium:
    """A browser with one tab. Messages are JSON, terminated by a zero byte; the browser reads descriptor 3 and writes
    4."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        pipe_ends = [*os.pipe(), *os.pipe()]
        reads, self._write, self._read, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in pipe_ends)
        nothing = os.open(os.devnull, os.O_RDWR)
        moves = [
            (os.POSIX_SPAWN_DUP2, source, target)
            for source, target in ((reads, 3), (writes, 4), (nothing, 1), (nothing, 2))
        ]
        arguments = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = os.posix_spawn(PROGRAM, arguments, os.environ, file_actions=moves, setpgroup=0)
        for end in (*pipe_ends, reads, writes, nothing):
            os.close(end)
        self._sent, self._buffer = 0, b""
        self._session: str | None = None
        self.said: list[Any] = []
        """Messages and exceptions of the page."""
        tab = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command, and return its result."""
        number = self._post(method, **parameters)
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            if (
                answer.get("method") == "Page.javascriptDialogOpening"
            ):  # a page with unsaved changes asks before it closes
                self._post("Page.handleJavaScriptDialog", accept=True)
            if answer.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.said.append(answer["params"])

    def _post(self, method: str, **parameters: Any) -> int:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        unsent = json.dumps(message).encode() + b"\0"
        while unsent:
            unsent = unsent[os.write(self._write, unsent) :]
        return self._sent

    def _receive(self) -> Any:
        until = time.monotonic() + _TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, page: Path | str, dark: bool = False) -> None:
        """Load a page from a file or address, and wait until its scripts have run."""
        self.said.clear()
        address = page if isinstance(page, str) else page.as_uri()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.send("Page.navigate", url=address)
        self.until(f"document.readyState === 'complete' && location.href === {json.dumps(address)}")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def run_in_frame(self, script: str) -> Any:
        """Return the value of an expression in the sandboxed frame of the page, which has a process of its own."""
        (frame,) = (one for one in self.send("Target.getTargets")["targetInfos"] if one["type"] == "iframe")
        page = self._session
        self._session = self.send("Target.attachToTarget", targetId=frame["targetId"], flatten=True)["sessionId"]
        try:
            return self.run(script)
        finally:
            attached, self._session = self._session, page
            self.send("Target.detachFromTarget", sessionId=attached)

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _TIMEOUT
        while not self.run(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)

    def choose(self, element: str, file: Path) -> None:
        """Choose a file in a file input, which an expression returns."""
        found = self.send("Runtime.evaluate", expression=element)["result"]["objectId"]
        self.send("DOM.setFileInputFiles", files=[str(file)], objectId=found)

    def write(self, text: str) -> None:
        """Insert a text at the cursor."""
        self.send("Input.insertText", text=text)

    def picture(self, path: Path, width: int, height: int) -> None:
        """Save the content of a window of some size as a PNG file."""
        self.resize(width, height)
        path.write_bytes(b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
        self.send("Emulation.clearDeviceMetricsOverride")

    def press(self, key: str, code: int, text: str = "", modifiers: int = 0) -> None:
        """Press and release a key; the modifiers are Alt (1), Ctrl (2), Meta (4) and Shift (8)."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event at a position of the window."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Click with the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def close(self) -> None:
        """Close the browser, and wait for its end."""
        self._session = None
        self.send("Browser.close")
        os.waitpid(self._process, 0)
        for end in (self._read, self._write):
            os.close(end)
