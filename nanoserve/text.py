"""Text at both ends of the loop: a chat into token ids, and a stream of token ids back into text."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_REPLACEMENT = "\ufffd"  # what bytes that are no character, or not yet one, decode to
_LONGEST_CHARACTER = 4  # bytes in UTF-8, so tokens at most


def encode_chat(tokenizer: "PreTrainedTokenizerBase", messages: str | list[dict[str, str]]) -> list[int]:
    """The prompt that asks a chat model for its next answer.

    Args:
        tokenizer: one with a chat template.
        messages: what the user says, or a list of `{"role": ..., "content": ...}`.

    Returns:
        Token ids. The template alone says which special tokens they begin with, so that no BOS comes twice.

    Raises:
        ValueError: the tokenizer has no chat template.
    """
    if tokenizer.chat_template is None:
        raise ValueError("this tokenizer has no chat template: take an instruct model, or tokenizer.encode(text)")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def stream_text(tokenizer: "PreTrainedTokenizerBase", token_ids: Iterable[int]) -> Iterator[str]:
    """Decode token ids as they come, without the special ones.

    A character may spread over several tokens: nothing is handed out while the text ends in half of one. Only the
    tokens since the last piece are decoded again, behind that piece's own, for some decoders treat the first token of
    a text differently. So the cost is linear in the number of tokens.

    Returns:
        Pieces of text that join to one decode of all the ids.
    """

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    special = {token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special}
    window: list[int] = []  # the tokens of the last piece, then those that came since
    last_piece = sent = 0  # how many are of the last piece; characters of the window's text that are out
    for token_id in token_ids:
        if token_id in special:
            continue
        window.append(token_id)
        text = decode(window)
        half = _REPLACEMENT if text.endswith(_REPLACEMENT) else ""
        if half and len(window) - last_piece < _LONGEST_CHARACTER:
            continue
        piece = text.removesuffix(half)[sent:]  # in a longer run of broken bytes only the last may still become one
        window = window[last_piece:]
        last_piece = len(window)
        sent = len(decode(window).removesuffix(half))
        if piece:
            yield piece
    rest = decode(window)[sent:]
    if rest:
        yield rest
