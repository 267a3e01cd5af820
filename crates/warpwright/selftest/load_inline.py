#!/usr/bin/env python3
"""Builds one kernel the way PyTorch code does, with load_inline, and says how long everything took.

    python3 load_inline.py CASE.json                  one line of JSON with the times
    python3 load_inline.py --print-source CASE.json   the C++ that would be built; needs no torch

CASE.json: {"name": "vector_add", "source": "CUDA text", "entry": "add", "grid": [1, 1, 1],
"block": [256, 1, 1], "shared_bytes": 0, "args": [{"tensor": "a", "shape": [64], "role": "input",
"dtype": "f32"}, {"int": 64, "bits": 32}, {"float": 1e-5}]}. The entry is extern "C".
"""
import json
import os
import statistics
import sys
import tempfile
import time

CPP_TYPES = {
    "f32": "float", "f64": "double", "f16": "__half", "bf16": "__nv_bfloat16", "i32": "int",
    "i64": "long long", "i16": "short", "i8": "signed char", "u8": "unsigned char", "bool": "bool",
}
TORCH_TYPES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i32": "int32",
    "i64": "int64", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
}
TIMED_RUNS = 30
WARM_RUNS = 3
FLUSH_BYTES = 256 << 20

TEMPLATE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

{source}

void run(std::vector<torch::Tensor> tensors) {{
    const dim3 grid({grid}), block({block});
    const size_t shared = {shared};
{raise_limit}    {entry}<<<grid, block, shared, c10::cuda::getCurrentCUDAStream()>>>(
        {arguments});
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}}
"""
RAISE_LIMIT = """    C10_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(&{entry}),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, {shared}));
"""
CPP_SOURCE = "void run(std::vector<torch::Tensor> tensors);"


def argument(spec, tensors):
    """One argument of the launch as C++; tensors are numbered as they come."""
    if "tensor" in spec:
        tensors.append(spec)
        kind = CPP_TYPES[spec["dtype"]]
        return f"static_cast<{kind}*>(tensors[{len(tensors) - 1}].data_ptr())"
    if "int" in spec:
        kind = {32: "int", 64: "long long"}[spec["bits"]]
        return f"static_cast<{kind}>({int(spec['int'])}LL)"
    return f"static_cast<float>({float(spec['float'])!r})"


def generate(case):
    """The CUDA file, and the tensors that it wants, in order."""
    tensors = []
    arguments = [argument(spec, tensors) for spec in case["args"]]
    entry, shared = case["entry"], int(case.get("shared_bytes", 0))
    text = TEMPLATE.format(
        source=case["source"], entry=entry, shared=shared,
        grid=", ".join(f"{int(n)}u" for n in case["grid"]),
        block=", ".join(f"{int(n)}u" for n in case["block"]),
        raise_limit=RAISE_LIMIT.format(entry=entry, shared=shared) if shared > 48 << 10 else "",
        arguments=",\n        ".join(arguments),
    )
    return text, tensors


def allocate(torch, spec):
    kind = getattr(torch, TORCH_TYPES[spec["dtype"]])
    if spec["role"] == "output":
        return torch.empty(spec["shape"], dtype=kind, device="cuda")
    if kind.is_floating_point:
        return torch.randn(spec["shape"], dtype=torch.float32, device="cuda").to(kind)
    return torch.zeros(spec["shape"], dtype=kind, device="cuda")


def median_ms(torch, run):
    """Each run between two events, after the L2 cache was overwritten."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times = []
    for number in range(WARM_RUNS + TIMED_RUNS):
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        if number >= WARM_RUNS:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(case, began):
    text, specs = generate(case)
    import torch
    from torch.utils.cpp_extension import load_inline
    imported = time.perf_counter()

    os.environ["TORCH_CUDA_ARCH_LIST"] = "{}.{}".format(*torch.cuda.get_device_capability())
    tensors = [allocate(torch, spec) for spec in specs]
    torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="load_inline_") as folder:
        ready = time.perf_counter()
        module = load_inline(name="inline_" + case["entry"], cpp_sources=CPP_SOURCE,
                             cuda_sources=text, functions=["run"], build_directory=folder,
                             verbose=False)
        built = time.perf_counter()
        module.run(tensors)
        torch.cuda.synchronize()
        ran = time.perf_counter()
        median = median_ms(torch, lambda: module.run(tensors))
    return {"name": case["name"], "import_s": round(imported - began, 3),
            "build_s": round(built - ready, 3), "first_run_s": round(ran - built, 6),
            "total_s": round(ran - began, 3), "median_ms": round(median, 6),
            "torch": torch.__version__, "cuda": torch.version.cuda}


def main(arguments):
    began = time.perf_counter()
    if len(arguments) not in (1, 2) or (len(arguments) == 2 and arguments[0] != "--print-source"):
        print(__doc__, file=sys.stderr)
        return 2
    name = arguments[-1]
    try:
        with open(arguments[-1], encoding="utf-8") as file:
            case = json.load(file)
        name = case["name"]
        if len(arguments) == 2:
            print(generate(case)[0])
        else:
            print(json.dumps(measure(case, began)))
        return 0
    except Exception as error:  # whatever breaks is reported in the one line
        print(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"[:4000]}))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
