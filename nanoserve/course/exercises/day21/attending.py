"""Task 21.3: the kernel behind `attend`, one mechanism each."""

from nanoserve.cache import KVCache
from nanoserve.course.exercises.day21.beside import LAYERS, Beside, new_pool, same_output
from nanoserve.course.probe import Probe


def a_prompt_takes_the_gather(probe: Probe) -> None:
    """A prompt of six tokens: many queries, and no launch of the kernel."""
    beside = Beside(probe)
    probe.cases += 1
    if getattr(probe.subject, "attend", None) is KVCache.attend:
        probe.fail(
            f"an `attend` in your `{probe.subject.__name__}`", "`KVCache.attend`, which it inherits", "not-its-own"
        )
    beside.prompt(6)


def a_token_takes_the_kernel(probe: Probe) -> None:
    """One new token: the kernel, over the blocks where they lie."""
    beside = Beside(probe)
    beside.prompt(6)
    beside.decode()


def token_by_token(probe: Probe) -> None:
    """Token by token, over the edge of a block."""
    beside = Beside(probe)
    for _ in range(6):
        beside.decode()


def only_where_it_is_asked_for(probe: Probe) -> None:
    """`kernel` decides: False is never, and None, as it is at first, is on a GPU only."""
    _asked(Beside(probe, False), "refusal-not-heard")
    _asked(Beside(probe, None), "kernel-unasked")
    probe.calls.clear()
    cache = probe.record(f"cache = {probe.subject.__name__}(pool)", probe.subject, new_pool(), shows_result=False)
    probe.equal(probe.record("cache.kernel", getattr, cache, "kernel", "there is none"), None, "not-none-at-first")


def a_gpu_asks_for_it(probe: Probe) -> None:
    """On a GPU (a CPU's tensors say that they lie on one): None is the kernel, and False is still never."""
    _asked(Beside(probe, None, on_gpu=True), "gather-on-a-gpu")
    _asked(Beside(probe, False, on_gpu=True), "gpu-overrules-refusal")


def a_chunk_of_a_prompt(probe: Probe) -> None:
    """Three more tokens at once, after seven, then two: each sees itself and those before it."""
    beside = Beside(probe)
    beside.prompt(7)
    beside.prompt(3, "chunk-masked-wrongly")
    beside.prompt(2, "chunk-masked-wrongly")
    beside.decode()


def nothing_waits_for_the_device(probe: Probe) -> None:
    """The index tensors are made once a step, and nothing is copied back to the host."""
    beside = Beside(probe)
    beside.prompt(3)
    seen = beside.decode()
    probe.cases += 1
    for noted, what, slip in (
        (seen.to_host, "no copy from the device to the host", "copied-to-the-host"),
        (seen.made, f"no tensor made from the host's numbers in layer {LAYERS - 1}", "index-tensors-in-each-layer"),
    ):
        if noted:
            probe.fail(what, f"{len(noted)}: {', '.join(dict.fromkeys(noted))}", slip)


def two_sequences_in_one_pool(probe: Probe) -> None:
    """Two sequences in turns, step by step and layer by layer, and one that is freed and begins anew."""
    one = Beside(probe, name="a")
    other = Beside(probe, pool=one.pool, name="b")
    for _ in range(2):
        one.decode("another-sequence")
        other.decode("another-sequence")
    for layer in range(LAYERS):
        one.decode_layer(layer, "another-sequence")
        other.decode_layer(layer, "another-sequence")
    probe.record("a.free()", one.cache.free, shows_result=False)
    other.decode("another-sequence")
    one.witness.free()
    one.decode("another-sequence")


def any_heads_any_block_size(probe: Probe) -> None:
    """Other heads, widths and block sizes."""
    for block_size, heads, width in ((1, 1, 5), (3, 3, 16), (16, 1, 80)):
        probe.calls.clear()
        beside = Beside(probe, pool=new_pool(2, block_size, heads, width))
        with probe.on_error(IndexError, RuntimeError, ValueError, slip="other-sizes"):
            beside.prompt(4, "other-sizes")
            beside.decode("other-sizes")


def _asked(beside: Beside, slip: str) -> None:
    """A prompt and a token, of which the token alone launches the kernel, and that on a GPU if it is not refused."""
    probe = beside.probe
    wanted = beside.cache.kernel is None and (beside.says_gpu or beside.pool.k.is_cuda)
    for num_tokens in (3, 1):
        done = beside.attend(0, num_tokens)
        if bool(done.seen.launches) != (wanted and num_tokens == 1):
            told = ("a launch of the kernel", "none") if wanted else ("no launch of the kernel", "a launch")
            probe.fail(*told, slip)
        same_output(probe, done.came, done.right, "wrong-prompt", {})
