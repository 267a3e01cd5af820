// Launches one block too few: the last rows are never written.
extern "C" __global__ void softmax(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float largest = -INFINITY, total = 0.0f;
    for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
    for (int c = 0; c < cols; ++c) total += expf(in[c] - largest);
    for (int c = 0; c < cols; ++c) out[c] = expf(in[c] - largest) / total;
}
