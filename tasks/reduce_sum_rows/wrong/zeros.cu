// Writes zeros.
extern "C" __global__ void sum(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    y[row] = 0.0f * in[0];
}
