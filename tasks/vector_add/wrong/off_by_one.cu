// Tests with <= and writes one element past the end.
extern "C" __global__ void add(const float* a, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = a[i] + b[i];
}
