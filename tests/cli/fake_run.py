"""The whole program over the fake engine, for tests that need a process: `python -m tests.cli.fake_run transcribe ...`.

$FAKE_ENGINE holds the fake's settings as JSON. With $FAKE_NETWORK the output counts as a network mount. With
$FAKE_DEADLY="decode NAME", or "probe NAME", that recording ends the program, as a fault in native code does.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

from mlxbatch.__main__ import main
from mlxbatch.types import Item

if __name__ == "__main__":
    from mlxbatch import ledger_file, reading
    from mlxbatch.cli import request

    settings = json.loads(os.environ.get("FAKE_ENGINE", "{}"))
    request.choose = lambda name, **_: request.Chosen("fake", name, "0" * 64, None, settings)
    if os.environ.get("FAKE_NETWORK"):
        ledger_file.on_network = lambda folder: True
    if deadly := os.environ.get("FAKE_DEADLY"):
        stage, _, name = deadly.partition(" ")
        work = getattr(reading, stage)

        def deadly_work(item: Item, *asked: Any) -> Any:
            if item.source.name == name:
                ctypes.string_at(0)  # on this very thread, as a decoder's own fault would be
            return work(item, *asked)

        setattr(reading, stage, deadly_work)
    main()
