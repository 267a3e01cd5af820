// Uses the input as scratch memory.
extern "C" __global__ void softmax(float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float largest = -INFINITY, total = 0.0f;
    for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
    for (int c = 0; c < cols; ++c) total += in[c] = expf(in[c] - largest);
    for (int c = 0; c < cols; ++c) out[c] = in[c] / total;
}
