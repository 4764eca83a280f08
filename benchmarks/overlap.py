"""Is the overlap real? The stages of a real run on a time line, out of its own log, and `--workers 0` beside it.

python benchmarks/overlap.py [--input examples]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--input", type=Path, default=ROOT / "examples")
    # Fewer slots than recordings, so that one batch follows another.
    parser.add_argument("--batch-size", default="4")
    options = parser.parse_args()
    for workers in ("2", "0"):
        events = run(options.input, "--workers", workers, "--batch-size", options.batch_size)
        show(workers, [event for event in events if event["event"] == "span"], events[-1]["t"])
    return 0


def run(source: Path, *options: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mlxbatch", "transcribe", str(source), "-o", folder, "--quiet", *options]
        subprocess.run(command, check=True)
        (log,) = Path(folder, ".mlxbatch", "runs").glob("*.jsonl")
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def show(workers: str, spans: list[dict[str, Any]], total: float) -> None:
    print(f"\n--workers {workers}: {total:.1f} s in all")
    for stage in dict.fromkeys(span["stage"] for span in spans):
        print(f"  {stage:9}|{bar([span for span in spans if span['stage'] == stage], total)}|")
    decodes = [span for span in spans if span["stage"] == "decode"]
    ahead = [
        feature
        for feature in spans
        if feature["stage"] == "features" and any(d["begin"] < feature["begin"] < d["end"] for d in decodes)
    ]
    features = sum(span["stage"] == "features" for span in spans)
    print(f"  {len(ahead)} of {features} windows had their features begun while an earlier batch was being decoded")


def bar(spans: list[dict[str, Any]], total: float) -> str:
    cells = [" "] * WIDTH
    for span in spans:
        first, last = (int(span[edge] / total * WIDTH) for edge in ("begin", "end"))
        for cell in range(first, min(last, WIDTH - 1) + 1):
            cells[cell] = "#"
    return "".join(cells)


if __name__ == "__main__":
    raise SystemExit(main())
