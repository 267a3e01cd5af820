class Module:
    def cuda(self):
        return self

    def eval(self):
        return self

    def __call__(self, *inputs):
        return self.forward(*inputs)
