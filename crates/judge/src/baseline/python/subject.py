"""What is timed: the task's module or function, under flags that are set and read back."""

import importlib
import inspect
import linecache
import os
import types

UNSET = "(unset)"
DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16",
    "u8": "uint8", "bool": "bool", "ue8m0": "float8_e8m0fnu",
}
MODES = {"compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}


class Unfit(Exception):
    """The baseline is not one; its window is refused."""


def write_flag(torch, name, value):
    if name == "float32_matmul_precision":
        torch.set_float32_matmul_precision(value)
    elif "." not in name:
        os.environ.pop(name, None)
        if value != UNSET:
            os.environ[name] = value
    else:
        owner, attribute = place(torch, name)
        setattr(owner, attribute, value == "True")


def read_flag(torch, name):
    if name == "float32_matmul_precision":
        return torch.get_float32_matmul_precision()
    if "." not in name:
        return os.environ.get(name, UNSET)
    owner, attribute = place(torch, name)
    value = getattr(owner, attribute)
    # Some versions tell besides whether sums may be split.
    return str(bool(value[0] if isinstance(value, tuple) else value))


def place(torch, name):
    library, attribute = name.split(".")
    backends = torch.backends
    return {"matmul": backends.cuda.matmul, "cudnn": backends.cudnn}[library], attribute


def set_flags(torch, flags):
    # The precision sets others with it, so it comes first.
    for name in sorted(flags, key=lambda name: name != "float32_matmul_precision"):
        write_flag(torch, name, flags[name])


def read_flags(torch, flags, environment):
    return {name: read_flag(torch, name) for name in sorted({*flags, *environment})}


def module_of(text):
    """The task's reference.py as a module whose source tracebacks and compilers find."""
    name = "<reference.py>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType("reference")
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def named(function, values):
    """Those values that a callable names as parameters."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


def load(torch, request, text):
    """A callable that takes the inputs and gives the outputs."""
    values = {**request["scalars"], **request["dims"]}
    if request["function"] is not None:
        module, _, function = request["function"].partition(":")
        found = module_of(text) if module == "reference" else importlib.import_module(module)
        function = getattr(found, function)
        values = named(function, values)
        return lambda *inputs: function(*inputs, **values)
    module = module_of(text)
    first = list(module.get_init_inputs()) if hasattr(module, "get_init_inputs") else []
    model = module.Model(*first) if first else module.Model(**named(module.Model, values))
    model = model.cuda().eval()
    mode = MODES.get(request["baseline"].rpartition("-")[0])
    return model if mode is None else torch.compile(model, mode=mode, dynamic=False)


def compiles(torch):
    """Grows with every graph that is compiled."""
    counters = torch._dynamo.utils.counters
    return counters["stats"].get("unique_graphs", 0) + counters["frames"].get("total", 0)


def checked(torch, outputs, wanted):
    """The outputs as a list, each dense, aligned, and of its type and shape."""
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if len(outputs) != len(wanted):
        raise Unfit(f"it gives {len(outputs)} outputs, the task has {len(wanted)}")
    for output, form in zip(outputs, wanted):
        name, dtype = form["name"], getattr(torch, DTYPES[form["dtype"]])
        if not isinstance(output, torch.Tensor) or not output.is_cuda:
            raise Unfit(f"`{name}` is no tensor on the GPU")
        if output.dtype != dtype or list(output.shape) != form["extents"]:
            found = f"{output.dtype} {list(output.shape)}"
            raise Unfit(f"`{name}` is {found}, the task wants {dtype} {form['extents']}")
        if not output.is_contiguous() or output.data_ptr() % 16 != 0:
            raise Unfit(f"`{name}` is not contiguous and aligned; end with .contiguous()")
    return outputs


def versions(torch):
    found = {"torch": torch.__version__, "cuda": torch.version.cuda}
    for name in ["triton", "numpy"]:
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            continue
    return {name: str(version) for name, version in found.items()}
