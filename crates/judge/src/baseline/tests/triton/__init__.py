import torch


def __getattr__(name):
    if name == "__version__":
        return torch.last_mode
    raise AttributeError(name)
