"""The whole workflow: compile and count a space, then train, export and verify one of its networks.

`make demo` runs it. Every step is a command that is printed before it runs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPACE = HERE / "full_attention" / "full_attention.arch"
OUT = Path("demo")
SMALL = ["-p", "size=8"]
"""The digits have 8 x 8 pixels, so images are not enlarged."""
TRAINING = ["--epochs", "20", "--batch", "32", "--lr", "3e-3", "--no-augment"]


def archir(*arguments: str | Path) -> None:
    """Run a command of archir, as a user would."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ archir {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "archir", *words], check=True)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    space = SPACE.relative_to(Path.cwd()) if SPACE.is_relative_to(Path.cwd()) else SPACE
    arch, run = OUT / "architecture.json", OUT / "run"
    archir("check", space)
    archir("compile", space, "-o", OUT / "space.ir")
    archir("count", space)
    archir("sample", space, "--seed", "1", *SMALL, "-o", arch)
    archir("cost", space, "--arch", arch)
    archir("compile", space, "--arch", arch, "--to", "torch", "-o", OUT / "network.py")
    archir("train", space, "--arch", arch, "--data", "digits", *TRAINING, "-o", run)
    archir("export", run, "-o", OUT / "network.onnx")
    accuracy = json.loads((run / "training.json").read_text())["accuracy"]
    print(f"\nHeld-out accuracy {100 * accuracy:.2f}%. The files are in {OUT.resolve()}:")
    for name, what in {
        "space.ir": "the graph of the whole space",
        "architecture.json": "the sampled architecture",
        "network.py": "the network as a Python file that imports only torch",
        "run/weights.safetensors": "its trained weights",
        "network.onnx": "the ONNX model",
    }.items():
        print(f"  {name:26} {what}")
    if accuracy < 0.95:
        sys.exit("the accuracy is below 95%")


if __name__ == "__main__":
    main()
