"""The state of a card as the management library tells it; None where it does not."""

import ctypes
import os

REASONS = [
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "display_clock_setting",
]
NOT_SUPPORTED = 3
PROCESSES_MAX = 1024


class ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint),
    ]


def card_state(uuid, opened):
    try:
        return told_state(ctypes.CDLL("libnvidia-ml.so.1"), uuid, opened)
    except (OSError, AttributeError):
        return None


def energy_counter(uuid):
    """A function that reads the counter in millijoules, or gives None; None where there is none."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle, value = ctypes.c_void_p(), ctypes.c_ulonglong()
        found = ctypes.byref(handle)
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), found):
            return None
        ask = nvml.nvmlDeviceGetTotalEnergyConsumption
    except (OSError, AttributeError):
        return None
    return lambda: None if ask(handle, ctypes.byref(value)) else value.value


def told_state(nvml, uuid, opened):
    handle = ctypes.c_void_p()
    found = ctypes.byref(handle)
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), found):
        return None

    def number(kind, name, *arguments):
        value = kind()
        failed = getattr(nvml, name)(handle, *arguments, ctypes.byref(value))
        return 0 if failed else value.value

    unsigned = ctypes.c_uint
    reasons = number(ctypes.c_ulonglong, "nvmlDeviceGetCurrentClocksThrottleReasons")
    return {
        "sm_clock_hz": number(unsigned, "nvmlDeviceGetClockInfo", 1) * 1e6,
        "memory_clock_hz": number(unsigned, "nvmlDeviceGetClockInfo", 2) * 1e6,
        "temperature_c": number(unsigned, "nvmlDeviceGetTemperature", 0),
        "power_w": number(unsigned, "nvmlDeviceGetPowerUsage") / 1e3,
        "throttle": [name for bit, name in enumerate(REASONS) if reasons >> bit & 1],
        "foreign_processes": foreign(listed(nvml, handle), os.getpid(), opened),
    }


def listed(nvml, handle):
    """Numbers of the processes that use the card."""
    found = set()
    for kind in ["Compute", "Graphics"]:
        count, infos = ctypes.c_uint(PROCESSES_MAX), (ProcessInfo * PROCESSES_MAX)()
        ask = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3")
        failed = ask(handle, ctypes.byref(count), infos)
        if failed == NOT_SUPPORTED and kind == "Graphics":
            continue
        if failed:
            return None
        found.update(info.pid for info in infos[: count.value])
    return found


def foreign(pids, own, opened):
    """How many are not this process; None where this one must be listed and is not."""
    if pids is None or (opened and own not in pids):
        return None
    return len(pids - {own})
