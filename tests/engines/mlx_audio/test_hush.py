"""What other people's code says is not seen, what others say is."""

from __future__ import annotations

import logging
import sys
import threading
import warnings

import pytest

from mlxbatch.engines.mlx_audio.hush import hushed


def test_prints_warnings_and_logs_of_this_thread_are_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with hushed():
        print("print")
        print("error", file=sys.stderr)
        warnings.warn("warning", stacklevel=1)
        handler = logging.StreamHandler()
        handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "log", (), None))
    assert capsys.readouterr() == ("", "")
    handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "later", (), None))
    print("after")
    assert capsys.readouterr() == ("after\n", "later\n")


def test_what_another_thread_says_meanwhile_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with hushed():
        thread = threading.Thread(target=lambda: print("progress"))
        thread.start()
        thread.join()
    assert capsys.readouterr().out == "progress\n"


def test_a_muted_stream_is_in_all_else_what_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with hushed():
        assert sys.stdout.encoding == before.encoding
        assert sys.stdout.fileno() == before.fileno()
        sys.stdout.flush()


def test_streams_are_put_back_after_an_error() -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(ValueError, match="x"), hushed():
        raise ValueError("x")
    assert (sys.stdout, sys.stderr) == before
