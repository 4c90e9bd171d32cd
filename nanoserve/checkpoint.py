"""Reads the files of a checkpoint folder; one that is missing or broken is named, with what to do about it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from nanoserve.model import eos_ids

if TYPE_CHECKING:
    from transformers import LlamaConfig

_AGAIN = "fetch it again, or name another checkpoint"


def read_config(folder: Path) -> "LlamaConfig":
    """The sizes in config.json.

    Raises:
        OSError: there is none.
        ValueError: it is broken, or holds what no config may.
    """
    from transformers import LlamaConfig  # takes seconds to import, which only a load need pay

    file = folder / "config.json"
    fields = _read_json(file)
    try:
        return LlamaConfig.from_dict(fields)
    except Exception as error:  # transformers' checks raise many kinds
        reason = " ".join(str(error).split())
        raise ValueError(f"{file} is no config of a Llama ({reason}): {_AGAIN}") from error


def read_tensors(folder: Path, shapes: Mapping[str, torch.Size]) -> Iterator[tuple[str, torch.Tensor]]:
    """The names and tensors of model.safetensors, or of the shards that an index names, one by one.

    Args:
        folder: a checkpoint's.
        shapes: the shape that a tensor of this name must have; a name that is not among them may have any.

    Raises:
        OSError: a file is missing.
        ValueError: a file is broken, or a tensor has another shape.
    """
    for file in _tensor_files(folder):
        try:
            tensors = load_file(file)  # mapped, not read: a page of the file is read when it is used
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{file} is cut short, or no safetensors file at all: {_AGAIN}") from error
        for name, tensor in tensors.items():
            if tensor.shape != shapes.get(name, tensor.shape):
                raise ValueError(
                    f"{name} in {file} is {tuple(tensor.shape)}, and by config.json it must be {tuple(shapes[name])}: "
                    f"the two are not of one checkpoint; {_AGAIN}"
                )
            yield name, tensor


def eos_beside_config(folder: Path) -> set[int]:
    """The eos ids in generation_config.json, and the tokenizer's own, which config.json may not have."""
    found: set[int] = set()
    if (folder / "generation_config.json").is_file():
        found |= eos_ids(_read_json(folder / "generation_config.json").get("eos_token_id"))
    if (folder / "tokenizer_config.json").is_file() and (folder / "tokenizer.json").is_file():
        eos = _read_json(folder / "tokenizer_config.json").get("eos_token")
        eos = eos["content"] if isinstance(eos, dict) else eos
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises no narrower kind
            raise ValueError(f"{folder / 'tokenizer.json'} is broken, or no tokenizer at all: {_AGAIN}") from error
        found |= eos_ids(eos and tokenizer.token_to_id(eos))
    return found


def _tensor_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return [_existing(folder / "model.safetensors")]
    shard_of = _read_json(index).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise ValueError(f"{index} names no shard in its weight_map: {_AGAIN}")
    return [_existing(folder / name) for name in sorted(set(map(str, shard_of.values())))]


def _read_json(file: Path) -> dict[str, Any]:
    try:
        fields = json.loads(_existing(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is broken, or no JSON at all ({error}): {_AGAIN}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{file} holds no JSON object: {_AGAIN}")
    return fields


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise OSError(f"{file.parent} is no checkpoint: it has no {file.name}; {_AGAIN}")
    return file
