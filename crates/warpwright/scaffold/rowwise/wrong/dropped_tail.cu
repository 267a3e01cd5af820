// Handles four columns at a time and forgets what is left over.
// REPLACE the formula, as in the other kernels of this folder: right but for one slip.
extern "C" __global__ void rms(const float* x, const float* weight, float* y, float eps, int rows,
                               int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float squares = 0.0f;
    for (int c = 0; c < cols; ++c) squares += in[c] * in[c];
    float root = sqrtf(squares / cols + eps);
    for (int c = 0; c + 3 < cols; c += 4) {
        for (int k = c; k < c + 4; ++k) out[k] = in[k] / root * weight[k];
    }
}
