"""The pictures of MLflow's pages in docs/mlflow/: a real Chromium clicks through the real pages of recorded results.

`python docs/screens.py` takes them anew, in a minute or two. It needs Chromium and aiohttp, which Ray and MLflow bring.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "mlflow"
PORT = 5017
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    "--remote-debugging-port=0",
]
CLICKABLE = "button, a, label, span, div, li, [role=treeitem], [role=menuitem]"


class Tab:
    """A tab of Chromium, by its DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._requests = socket, 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._requests += 1
        await self._socket.send_json({"id": self._requests, "method": method, "params": parameters})
        while (answer := await self._socket.receive_json()).get("id") != self._requests:
            pass
        return dict(answer["result"])

    async def value(self, script: str) -> Any:
        """The value of an expression of JavaScript; None while it fails, as on a page that loads."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    async def find(self, script: str, seconds: float = 60.0) -> list[float]:
        """Wait for an element; return its middle."""
        box = "const b = e.getBoundingClientRect()"
        middle = f"(e => {{ {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})({script})"
        for _ in range(int(4 * seconds)):
            await asyncio.sleep(0.25)
            if place := await self.value(middle):
                return list(place)
        raise TimeoutError(script)

    async def click(self, script: str) -> None:
        """Click at an element, and wait until the page has answered."""
        x, y = await self.find(script)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        await asyncio.sleep(2)

    async def click_text(self, text: str) -> None:
        """Click at the innermost visible element with a text."""
        texts = f"e.textContent.trim() === {json.dumps(text)} && e.offsetParent"
        await self.click(f"[...document.querySelectorAll({json.dumps(CLICKABLE)})].filter(e => {texts}).at(-1)")

    async def write(self, placeholder: str, text: str) -> None:
        """Write a text into a field in place of what it has."""
        field = f"document.querySelector('input[placeholder={json.dumps(placeholder)}]')"
        await self.click(field)
        await self.value(f"{field}.select()")
        await self.call("Input.insertText", text=text)
        await asyncio.sleep(2)

    async def take(self, name: str) -> None:
        """Take a picture."""
        picture = await self.call("Page.captureScreenshot", format="png")
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


@asynccontextmanager
async def chromium(width: int, height: int) -> AsyncIterator[Tab]:
    """A tab of a new Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [str(program), *FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            port = Path(profile, "DevToolsActivePort")
            while not (port.exists() and port.read_text()):
                await asyncio.sleep(0.25)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port.read_text().split()[0]}") as session:
                async with session.get("/json/list") as answer:
                    address = next(tab["webSocketDebuggerUrl"] for tab in await answer.json() if tab["type"] == "page")
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    tab = Tab(socket)
                    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
                    await tab.call("Emulation.setDeviceMetricsOverride", **size)
                    yield tab
        finally:
            browser.terminate()
            browser.wait()


async def take_pictures(address: str, width: int = 1200, height: int = 640) -> None:
    """Click through the pages of a grid's runs."""
    async with chromium(width, height) as tab:
        await tab.call("Page.navigate", url=address)
        await tab.click("document.querySelector('button[aria-label=Close]')")  # of MLflow's assistant
        await tab.click_text("Group by")
        await tab.take("group_by")
        await tab.click_text("configuration")
        await tab.click_text("Columns")
        for column in ("Dataset", "Source", "Models", "summary/examples_per_s", "val/accuracy"):
            await tab.write("Search columns", column)
            await tab.click_text(column)
        await tab.click_text("Runs")
        await tab.take("means")
        await tab.click("document.querySelector('input[value=CHART]').closest('label')")
        await tab.write("Search metric charts", "examples_per_s|val/accuracy")
        await tab.take("charts")
    async with chromium(width, height) as tab:
        await tab.call("Page.navigate", url=address.partition("/#")[0])
        await tab.click("document.querySelector('button[aria-label=Close]')")
        await tab.click_text("Model training")
        await tab.call("Page.navigate", url=address)
        await tab.click_text("grid quickstart")
        await asyncio.sleep(3)
        await tab.take("answer")


def main() -> None:
    """Write the recorded results to a new store, serve it, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "notebooks" / "recorded", folder, dirs_exist_ok=True)
        raybench = [sys.executable, "-m", "raybench"]
        subprocess.run([*raybench, "export", f"{folder}/quickstart", "-o", f"{folder}/mlflow.db"], check=True)
        command = [*raybench, "ui", "--results", folder, "--port", str(PORT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            line = next(line for line in server.stdout if line.startswith("quickstart"))
            try:
                asyncio.run(take_pictures(re.findall(r"http\S+", line)[0]))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
