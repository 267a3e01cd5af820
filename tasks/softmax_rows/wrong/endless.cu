// Waits for a value that nobody writes.
extern "C" __global__ void softmax(const float* x, float* y, int rows, int cols) {
    volatile float* flag = y;
    while (flag[0] != 42.0f) {}
}
