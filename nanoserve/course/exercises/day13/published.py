"""What others have published: the sizes of models, and how full the KV caches of real systems are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """What of a config decides the size of its KV cache, and what is easily taken for it.

    The names and numbers are those of the model's `config.json` on the Hugging Face hub.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int

    __hash__ = None  # as a model's own config, which can be no key of a dict


SMOLLM2_135M = Sizes(  # HuggingFaceTB/SmolLM2-135M-Instruct, the course's own model
    num_hidden_layers=30,
    hidden_size=576,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    max_position_embeddings=8192,
)
LLAMA_3_2_1B = Sizes(  # meta-llama/Llama-3.2-1B
    num_hidden_layers=16,
    hidden_size=2048,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    max_position_embeddings=131072,
)
MISTRAL_NEMO = Sizes(  # mistralai/Mistral-Nemo-Base-2407: its heads are narrower than hidden_size has it
    num_hidden_layers=40,
    hidden_size=5120,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=128000,
)

# Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023), Figure 2:
# the share of the KV cache's memory that held token states in each system.
MEASURED = {"Orca (Max)": 0.204, "Orca (Pow2)": 0.268, "Orca (Oracle)": 0.382, "vLLM": 0.963}
