extern "C" __global__ void softmax_naive(const float* __restrict__ x, float* __restrict__ y,
                                         int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;

    float largest = -INFINITY;
    for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
    float total = 0.0f;
    for (int c = 0; c < cols; ++c) total += expf(in[c] - largest);
    for (int c = 0; c < cols; ++c) out[c] = expf(in[c] - largest) / total;
}
