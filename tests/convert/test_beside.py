from __future__ import annotations

from pathlib import Path

from mlxbatch.convert.beside import beside


def test_what_goes_along(tmp_path: Path) -> None:
    along = ["tokenizer.json", "vocab.txt", "tokens.model", "LICENSE", "NOTICE.md", "voices/a.safetensors"]
    behind = ["config.json", "quality.json", "README.md", "model.safetensors", "model.safetensors.index.json"]
    behind += ["modeling.py", "model.bin", ".gitattributes", "onnx/config.json"]
    for name in [*along, *behind]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert beside(tmp_path) == {name: tmp_path / name for name in along}


def test_a_vocabulary_may_have_any_word(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('["auto_map"]')
    assert beside(tmp_path) == {"vocab.json": tmp_path / "vocab.json"}
