"""Checkpoints with a file that is missing or broken: one sentence of ours, with the file's name and a way out."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from nanoserve import load_model

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(random_pair, tmp_path):
    random_pair()[1].save_pretrained(tmp_path)
    return tmp_path


def refused(folder, file, kind=ValueError):
    """What `load_model` says of the folder; it must be one line, name the file, and say what to do."""
    with pytest.raises(kind) as refusal:
        load_model(folder)
    told = str(refusal.value)
    assert type(refusal.value) is kind
    assert file in told
    assert "fetch it again, or name another checkpoint" in told
    assert "\n" not in told
    return told


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{'a': 1}", b"\xff\xfe{}"])
@pytest.mark.parametrize("file", [CONFIG, "generation_config.json", INDEX])
def test_json_that_is_broken_is_told_with_its_file(folder, file, text):
    if file == INDEX:
        (folder / WEIGHTS).unlink()
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, str(folder / file))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": "sixty-four"},
        {"num_hidden_layers": None},
        {"num_attention_heads": 0},
        {"num_attention_heads": 7},
        {"rope_parameters": {"rope_type": "llama3"}},
        {"dtype": "float1"},
    ],
    ids=str,
)
def test_a_config_that_no_model_can_have_is_told_with_its_file(folder, change):
    file = folder / CONFIG
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    refused(folder, str(file))


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-10])


def empty(file):
    file.write_bytes(b"")


def pointer(file):
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 269060552\n")


def a_folder(file):
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("ruin", [cut_short, empty, pointer], ids=lambda ruin: ruin.__name__)
def test_a_weight_file_that_is_broken_is_named(folder, ruin):
    ruin(folder / WEIGHTS)
    assert "cut short, or no safetensors file at all" in refused(folder, str(folder / WEIGHTS))


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder):
    tensors, name = load_file(folder / WEIGHTS), "model.layers.1.mlp.up_proj.weight"
    right = tuple(tensors[name].shape)
    tensors[name] = torch.zeros(3, 5)
    save_file(tensors, folder / WEIGHTS)
    told = refused(folder, str(folder / WEIGHTS))
    assert f"{name} in" in told
    assert "is (3, 5), and" in told
    assert f"must be {right}" in told


@pytest.mark.parametrize("content", [{}, {"weight_map": {}}, {"weight_map": None}, {"weight_map": ["a"]}], ids=str)
def test_an_index_that_names_no_shard_is_told(folder, content):
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(json.dumps(content))
    assert "names no shard" in refused(folder, str(folder / INDEX))


def test_a_shard_that_the_index_names_and_the_folder_lacks_is_told_by_its_name(random_pair, tmp_path):
    random_pair()[1].save_pretrained(tmp_path, max_shard_size="20KB")
    lost = sorted(tmp_path.glob("model-*.safetensors"))[1]
    lost.unlink()
    refused(tmp_path, f"it has no {lost.name}", OSError)


@pytest.mark.parametrize("ruin", [lambda file: file.unlink(), a_folder], ids=["gone", "a folder"])
def test_without_any_weights_it_is_the_one_file_that_is_missed_and_not_an_index(folder, ruin):
    ruin(folder / WEIGHTS)
    assert "index" not in refused(folder, f"it has no {WEIGHTS}", OSError)


def test_a_tokenizer_that_is_broken_is_told_with_its_file(folder):
    from tokenizers import Tokenizer, models

    backend = Tokenizer(models.WordLevel({"a": 0, "<end>": 9}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>").save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, str(folder / "tokenizer.json"))
