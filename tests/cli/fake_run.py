"""The whole program over the fake engine, for tests that need a process: `python -m tests.cli.fake_run transcribe ...`.

$FAKE_ENGINE holds the fake's settings as JSON. With $FAKE_NETWORK the output counts as a network mount.
"""

from __future__ import annotations

import json
import os

from mlxbatch.__main__ import main

if __name__ == "__main__":
    from mlxbatch import ledger_file
    from mlxbatch.cli import request

    settings = json.loads(os.environ.get("FAKE_ENGINE", "{}"))
    request.choose = lambda name, *, offline, say: request.Chosen("fake", name, "0" * 64, None, settings)
    if os.environ.get("FAKE_NETWORK"):
        ledger_file.on_network = lambda folder: True
    main()
