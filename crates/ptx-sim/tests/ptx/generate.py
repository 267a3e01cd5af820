# Compiles the .cu files here to PTX with NVRTC: python3 generate.py NVRTC_ROOT, where NVRTC_ROOT
# holds lib/libnvrtc.so.13 and include/. The PTX is committed; nothing runs this automatically.
import ctypes, pathlib, sys
root, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
ctypes.CDLL(root / "lib/libnvrtc-builtins.so.13.0", mode=ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(root / "lib/libnvrtc.so.13")
ARCHES = {"basic": ["sm_80", "sm_90a", "sm_100a"], "concurrency": ["sm_80", "sm_90a", "sm_100a"], "faults": ["sm_90a"],
          "matrix": ["sm_80", "sm_90a", "sm_100a"], "wmma": ["sm_80", "sm_100a"]}
for name, arches in ARCHES.items():
    source = (here / f"{name}.cu").read_bytes()
    for arch in arches:
        program = ctypes.c_void_p()
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, f"{name}.cu".encode(), 0, None, None)
        options = [f"--gpu-architecture={arch.replace('sm', 'compute')}", "-std=c++17", "-default-device",
                   "-lineinfo", "--device-int128", "--frandom-seed=warpwright", f"-I{root}/include"]
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        code, size = nvrtc.nvrtcCompileProgram(program, len(options), array), ctypes.c_size_t()
        get = ("ProgramLog" if code else "PTX")
        getattr(nvrtc, f"nvrtcGet{get}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{get}")(program, text)
        if code:
            sys.exit(text.value.decode())
        # NVRTC writes the working directory and header folders into .file; nobody else's machine has them.
        ptx = text.value.replace(f"{pathlib.Path.cwd()}/".encode(), b"").replace(f"{root}/".encode(), b"")
        (here / f"{name}.{arch}.ptx").write_bytes(ptx)
