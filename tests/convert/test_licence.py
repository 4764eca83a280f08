from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.convert.licence import licence_of

APACHE = "\n                                 Apache License\n                           Version 2.0, January 2004\n"


@pytest.mark.parametrize(
    ("files", "licence"),
    [
        ({"README.md": "---\ntags: [a]\nlicense: cc-by-4.0\n---\ntext"}, "cc-by-4.0"),
        ({"README.md": "---\nlicense: 'mit'\n---\n", "LICENSE": APACHE}, "mit"),
        ({"README.md": "# A model\nlicense: mit\n", "LICENSE": APACHE}, "Apache-2.0"),
        ({"LICENSE.txt": "MIT License\n\nCopyright"}, "MIT"),
        ({"LICENCE": "Copyright (c)\nPermission is hereby granted, free of charge, to any"}, "MIT"),
        ({"LICENSE": "Creative Commons Attribution-NonCommercial 4.0 International"}, "CC-BY-NC-4.0"),
        ({"LICENSE": "All rights reserved"}, None),
        ({}, None),
    ],
)
def test_the_licence_is_what_the_files_say(tmp_path: Path, files: dict[str, str], licence: str | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert licence_of(tmp_path) == licence
