"""A chat into ids without a second BOS, and a stream of ids back into text that joins to one decode."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from nanoserve import encode_chat, stream_text

TEXTS = [
    "Hello, world! 12345",
    "你好，世界。今天天气很好。",  # noqa: RUF001
    "emoji: 😀😀 🏳️‍🌈 👩‍👩‍👧‍👦 done",
    "naïve café — “quotes” … ½",
    "  leading,   double  and trailing spaces  ",
    "a literal \ufffd, and two \ufffd\ufffd",
    "mixed: é漢😀\n\tنص עברית ไทย",
    "",
]


def whole(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def byte_tokenizer():
    """One token a byte, as a byte-level model that has learned no merges: every character comes in halves."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocab = {char: byte for byte, char in bytes_to_unicode().items()}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|end|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def sentencepiece_tokenizer():
    """As Llama 2's: the first word loses its space, and characters without a token come as bytes."""
    words = ["▁hello", "▁world", "▁", "s", "<unk>", "</s>"]
    vocab = {word: i for i, word in enumerate(words)} | {f"<0x{byte:02X}>": 6 + byte for byte in range(256)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens([AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_join_to_one_decode(tokenizer, text):  # trap 30
    ids = tokenizer.encode(text)
    for end in range(len(ids) + 1):  # an incomplete tail included
        pieces = list(stream_text(tokenizer, iter(ids[:end])))
        assert "".join(pieces) == whole(tokenizer, ids[:end])
        assert all(pieces)
    assert "".join(stream_text(tokenizer, ids)) == text


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.integers(0, 49151) | st.integers(0, 300), max_size=40))
def test_any_ids_join_to_one_decode(tokenizer, ids):  # trap 30
    assert "".join(stream_text(tokenizer, ids)) == whole(tokenizer, ids)


BYTES = byte_tokenizer()
BROKEN = st.lists(
    st.sampled_from([0x41, 0x80, 0xBF, 0xC3, 0xE4, 0xBD, 0xA0, 0xF0, 0x9F, 0x98, 0x84, 0xED, 0xEF, 0xFF, 256])
)


@settings(max_examples=600)
@given(ids=BROKEN | st.text(max_size=12).map(lambda text: list(text.encode("utf-8", "ignore"))))
def test_any_bytes_broken_ones_too_join_to_one_decode(ids):  # trap 30
    assert "".join(stream_text(BYTES, ids)) == whole(BYTES, ids)


@given(words=st.lists(st.sampled_from(["hello", "world", "😀", "你", "</s>", "s"]), max_size=12))
def test_a_tokenizer_that_strips_the_first_space_and_falls_back_to_bytes_joins_too(words):
    tokenizer = sentencepiece_tokenizer()
    ids = []
    for word in words:
        known = {"hello": 0, "world": 1, "s": 3, "</s>": 5}
        ids += [known[word]] if word in known else [6 + byte for byte in word.encode()]
    assert "".join(stream_text(tokenizer, ids)) == whole(tokenizer, ids)


def test_a_character_is_handed_out_whole_and_at_once():
    assert list(stream_text(BYTES, list("né😀!".encode()))) == ["n", "é", "😀", "!"]


def test_text_comes_as_soon_as_its_tokens_do(tokenizer):
    taken = []
    stream = stream_text(tokenizer, (taken.append(i) or i for i in tokenizer.encode("one two three")))
    assert (next(stream), len(taken)) == ("one", 1)
    assert (next(stream), len(taken)) == (" two", 2)


def test_special_tokens_are_no_text(tokenizer):
    ids = [1, *tokenizer.encode("ok"), 2, 2, 0]
    assert list(stream_text(tokenizer, ids)) == ["ok"]


@pytest.mark.parametrize("ids", [[0x80], [0xF0], [256], [0x41], [0xF0, 256]], ids=str)
def test_the_cost_of_a_token_does_not_grow_with_the_text(monkeypatch, ids):
    lengths = []
    decode = BYTES.decode
    monkeypatch.setattr(BYTES, "decode", lambda window, **how: lengths.append(len(window)) or decode(window, **how))
    list(stream_text(BYTES, ids * 300))
    assert len(lengths) <= 2 * 300 * len(ids) + 1
    assert max(lengths) <= 10


def test_a_str_is_one_user_message_and_the_answer_is_asked_for(tokenizer):
    ids = encode_chat(tokenizer, "Hi 你好")
    assert ids == encode_chat(tokenizer, [{"role": "user", "content": "Hi 你好"}])
    assert all(type(token_id) is int for token_id in ids)
    assert tokenizer.decode(ids).endswith("<|im_start|>user\nHi 你好<|im_end|>\n<|im_start|>assistant\n")


def test_a_system_message_takes_the_place_of_the_templates_own(tokenizer):
    ids = encode_chat(tokenizer, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert tokenizer.decode(ids).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi")


def test_a_template_that_writes_the_bos_gets_no_second_one():  # trap 30
    from tokenizers import pre_tokenizers, processors

    backend = Tokenizer(models.WordLevel({"<s>": 0, "hi": 1, "<unk>": 2}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens([AddedToken("<s>", special=True)])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    adds_bos = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")
    adds_bos.chat_template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    assert adds_bos("hi")["input_ids"] == [0, 1]
    assert encode_chat(adds_bos, "hi") == [0, 1]


def test_a_tokenizer_without_a_chat_template_says_what_to_do():
    with pytest.raises(ValueError, match="no chat template: take an instruct model"):
        encode_chat(BYTES, "hi")
