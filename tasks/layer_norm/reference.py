import torch


class Model(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, weight, bias):
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, self.eps)
