#!/usr/bin/env python3
"""Serves llama.cpp's OpenAI-compatible server with a tiny model of random weights.

    python3 -m venv /tmp/tiny && /tmp/tiny/bin/pip install gguf==0.19.0 xllamacpp==2026.10.11549
    /tmp/tiny/bin/python docs/measurements/tiny_model_server.py PORT [CONTEXT_TOKENS]

Its answers are garbage; what is tried with it is the protocol.
"""

import pathlib
import sys
import tempfile
import time

import gguf
import numpy
import xllamacpp

WIDTH, HEADS, HIDDEN, LAYERS = 64, 4, 128, 2


def write_model(path: pathlib.Path, context: int) -> None:
    """Writes a model whose tokens are bytes."""
    random = numpy.random.default_rng(0)
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
    tokens += ["\u2581".encode()] + [bytes([letter]) for letter in range(97, 123)]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * 27)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)

    def random_tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.08).astype(numpy.float32))

    def ones(name: str) -> None:
        writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    random_tensor("token_embd.weight", len(tokens), WIDTH)
    ones("output_norm.weight")
    random_tensor("output.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        start = f"blk.{layer}."
        ones(start + "attn_norm.weight")
        ones(start + "ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            random_tensor(f"{start}{name}.weight", WIDTH, WIDTH)
        random_tensor(start + "ffn_gate.weight", HIDDEN, WIDTH)
        random_tensor(start + "ffn_up.weight", HIDDEN, WIDTH)
        random_tensor(start + "ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    port = int(sys.argv[1])
    context = int(sys.argv[2]) if len(sys.argv) > 2 else 60_000
    path = pathlib.Path(tempfile.mkdtemp()) / "tiny.gguf"
    write_model(path, max(context, 65_536))
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx = context
    settings.n_parallel = 1
    settings.warmup = False
    settings.port = port
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
