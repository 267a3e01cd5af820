"""The driver and the harness's kernels, as crates/device/src/cuda/timer.rs has them."""

import ctypes

# Held against the Rust side by a test of the device crate.
GATE_MINIMUM_NS = 200_000
GATE_TIMEOUT_NS = 100_000_000
HASHES_MAX = 4096
RECORD = 16
RECORD_WORDS = 3
PINNED_WORDS = 32
NEVER = 0x5EEDDEAD
SINK_BYTES = 256
HASH_BYTES = 16
THREADS = 256
BLOCK_THREADS = 1024

SM_COUNT, L2_BYTES, SHARED_OPTIN = 16, 38, 97  # CUdevice_attribute
DEVICE_MAP = 2  # CU_MEMHOSTALLOC_DEVICEMAP
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
POISON = 0xFF

word, long, real = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_float


class CudaError(Exception):
    """A call that the driver answered with something other than success."""


class Driver:
    """Raw calls; pointers and sizes are given as ctypes values."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} failed with code {code}")

    def attribute(self, which):
        device, value = ctypes.c_int(), ctypes.c_int()
        self("cuCtxGetDevice", ctypes.byref(device))
        self("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(which), device)
        return value.value


class Harness:
    """The harness on one stream. `allocate` gives the address of so many bytes for good."""

    ENTRIES = ["ww_write", "ww_read", "ww_copy", "ww_hash", "ww_spin", "ww_scrub", "ww_gate"]

    def __init__(self, driver, cubin, stream, allocate):
        self.driver, self.stream = driver, ctypes.c_void_p(stream)
        module = ctypes.c_void_p()
        driver("cuModuleLoadData", ctypes.byref(module), cubin)
        self.functions = {}
        for name in self.ENTRIES:
            function = ctypes.c_void_p()
            driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self.functions[name] = function
        self.sm_count = max(driver.attribute(SM_COUNT), 1)
        self.shared_bytes = driver.attribute(SHARED_OPTIN)
        scrub = self.functions["ww_scrub"]
        driver("cuFuncSetAttribute", scrub, MAX_DYNAMIC_SHARED, self.shared_bytes)
        self.flush_bytes = -(-2 * max(driver.attribute(L2_BYTES), 1) // (2 << 20)) * (2 << 20)
        self.flush_to, self.flush_from = allocate(self.flush_bytes), allocate(self.flush_bytes)
        scratch_bytes = SINK_BYTES + HASHES_MAX * HASH_BYTES
        self.scratch = allocate(scratch_bytes)
        self.fill(self.flush_from, 0, self.flush_bytes)
        self.fill(self.scratch, 0, scratch_bytes)
        host, address = ctypes.c_void_p(), long()
        driver("cuMemHostAlloc", ctypes.byref(host), long(8 * PINNED_WORDS), DEVICE_MAP)
        driver("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
        self.pinned = (long * PINNED_WORDS).from_address(host.value)
        ctypes.memset(host.value, 0, 8 * PINNED_WORDS)
        self.flag = address.value
        self.closed = self.opened = self.hashes = 0
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            driver("cuEventCreate", ctypes.byref(event), 0)

    def launch(self, name, blocks, threads, arguments, shared_bytes=0):
        pointers = (ctypes.c_void_p * len(arguments))(
            *[ctypes.cast(ctypes.pointer(it), ctypes.c_void_p) for it in arguments]
        )
        grid, block = (blocks, 1, 1), (threads, 1, 1)
        self.driver(
            "cuLaunchKernel", self.functions[name], *grid, *block, shared_bytes, self.stream,
            pointers, None,
        )

    def fill(self, address, byte, size):
        self.driver("cuMemsetD8Async", long(address), ctypes.c_ubyte(byte), long(size), self.stream)

    def move(self, to, source, size):
        self.driver("cuMemcpyDtoDAsync_v2", long(to), long(source), long(size), self.stream)

    def upload(self, to, host, size):
        source = ctypes.c_void_p(host)
        self.driver("cuMemcpyHtoDAsync_v2", long(to), source, long(size), self.stream)
        self.wait()

    def download(self, host, source, size):
        to = ctypes.c_void_p(host)
        self.driver("cuMemcpyDtoHAsync_v2", to, long(source), long(size), self.stream)
        self.wait()

    def wait(self):
        self.driver("cuStreamSynchronize", self.stream)

    def copy(self, to, source, size):
        quads = size // 16
        self.launch("ww_copy", tiles(quads), THREADS, [long(to), long(source), long(quads)])

    def flush(self):
        quads, sink = self.flush_bytes // 16, long(self.scratch)
        write = [long(self.flush_to), long(quads), word(NEVER)]
        self.launch("ww_write", tiles(quads), THREADS, write)
        read = [long(self.flush_from), long(quads), word(1), word(NEVER), sink]
        self.launch("ww_read", tiles(quads), THREADS, read)
        self.driver("cuCtxResetPersistingL2Cache")

    def scrub_shared(self):
        words = [word(POISON * 0x01010101), word(self.shared_bytes // 4), long(self.scratch)]
        self.launch("ww_scrub", self.sm_count, BLOCK_THREADS, words, self.shared_bytes)

    def close_gate(self):
        self.closed += 1
        for at in range(RECORD, RECORD + RECORD_WORDS):
            self.pinned[at] = 0
        record = long(self.flag + 8 * RECORD)
        times = [long(GATE_MINIMUM_NS), long(GATE_TIMEOUT_NS)]
        self.launch("ww_gate", 1, 1, [long(self.flag), long(self.closed), record, *times])

    def open_gate(self):
        self.opened = self.closed
        self.pinned[0] = self.opened

    def start(self):
        self.driver("cuEventRecord", self.events[0], self.stream)

    def stop(self):
        self.driver("cuEventRecord", self.events[1], self.stream)

    def hash(self, address, size, key):
        if self.hashes == HASHES_MAX:
            raise RuntimeError(f"at most {HASHES_MAX} hashes may wait to be read")
        sums = self.scratch + SINK_BYTES + HASH_BYTES * self.hashes
        self.hashes += 1
        pairs = max(-(-(-(-size // 16)) // THREADS), 1)
        blocks = min(pairs, 8 * self.sm_count)
        arguments = [long(address), long(size), long(key[0]), long(key[1]), long(sums)]
        self.launch("ww_hash", blocks, THREADS, arguments)

    def take_hashes(self):
        """The hashes queued since the last call; only after the stream has synchronised."""
        found = (long * (2 * self.hashes))()
        size = HASH_BYTES * self.hashes
        if size:
            self.download(ctypes.addressof(found), self.scratch + SINK_BYTES, size)
            self.fill(self.scratch + SINK_BYTES, 0, size)
        self.hashes = 0
        return [[found[at], found[at + 1]] for at in range(0, len(found), 2)]

    def spin(self, milliseconds):
        arguments = [long(self.scratch), long(milliseconds * 1_000_000), real(0.999), real(0.001)]
        self.launch("ww_spin", 2 * self.sm_count, BLOCK_THREADS, arguments)

    def timed(self):
        """Nanoseconds between the events, SM clock in Hz, whether the gate timed out."""
        elapsed = ctypes.c_float()
        self.driver("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
        nanoseconds, cycles, late = self.pinned[RECORD : RECORD + RECORD_WORDS]
        clock = cycles / nanoseconds * 1e9 if nanoseconds else 0.0
        return max(round(elapsed.value * 1e6), 0), clock, late != 0

    def event_pair_ns(self, pairs, gated):
        times = []
        for _ in range(pairs):
            if gated:
                self.close_gate()
            self.start()
            self.stop()
            if gated:
                self.open_gate()
            self.wait()
            times.append(self.timed()[0])
        return sorted(times)[len(times) // 2]


def tiles(quads):
    return max(-(-quads // (4 * THREADS)), 1)
