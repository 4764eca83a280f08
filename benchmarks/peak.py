"""Run a command and write the peak memory of its largest process to a file: python peak.py FILE COMMAND..."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

done = subprocess.run(sys.argv[2:])
unit = 1 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
Path(sys.argv[1]).write_text(json.dumps({"peak_bytes": peak}))
sys.exit(done.returncode)
