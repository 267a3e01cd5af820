#include <cub/block/block_reduce.cuh>
#include <cooperative_groups.h>
#include <cuda/std/cstdint>
#include <stdint.h>

extern "C" __global__ void sum(const float* x, float* y) {
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage scratch;
    float total = Reduce(scratch).Sum(x[blockIdx.x * 256 + threadIdx.x]);
    if (cooperative_groups::this_thread_block().thread_rank() == 0) y[blockIdx.x] = total;
}
