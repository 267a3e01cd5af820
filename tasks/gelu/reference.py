import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
