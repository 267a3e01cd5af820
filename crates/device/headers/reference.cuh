// Helpers for reference kernels: every element type read as double, sums with compensation.
//
// A reference kernel states what the right answer is. It is slow and simple, and works in double
// throughout: load with ww_load, add up with ww_sum, store a double.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

__device__ __forceinline__ double ww_to_double(double x) { return x; }
__device__ __forceinline__ double ww_to_double(float x) { return x; }
__device__ __forceinline__ double ww_to_double(__half x) { return __half2float(x); }
__device__ __forceinline__ double ww_to_double(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ double ww_to_double(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
__device__ __forceinline__ double ww_to_double(__nv_fp8_e5m2 x) { return static_cast<float>(x); }
__device__ __forceinline__ double ww_to_double(bool x) { return x ? 1.0 : 0.0; }
__device__ __forceinline__ double ww_to_double(char x) { return x; }
__device__ __forceinline__ double ww_to_double(signed char x) { return x; }
__device__ __forceinline__ double ww_to_double(unsigned char x) { return x; }
__device__ __forceinline__ double ww_to_double(short x) { return x; }
__device__ __forceinline__ double ww_to_double(unsigned short x) { return x; }
__device__ __forceinline__ double ww_to_double(int x) { return x; }
__device__ __forceinline__ double ww_to_double(unsigned x) { return x; }
// 64-bit integers above 2^53 round to the nearest double.
__device__ __forceinline__ double ww_to_double(long x) { return x; }
__device__ __forceinline__ double ww_to_double(unsigned long x) { return x; }
__device__ __forceinline__ double ww_to_double(long long x) { return x; }
__device__ __forceinline__ double ww_to_double(unsigned long long x) { return x; }

// Element i of an array of any supported type, as a double.
template <class T>
__device__ __forceinline__ double ww_load(const T* values, long long i) {
  return ww_to_double(values[i]);
}

// A running sum with Neumaier's compensation: about twice the precision of a plain sum.
// The intrinsics keep the compiler from fusing or reordering what the compensation relies on.
struct ww_sum {
  double sum = 0.0;
  double lost = 0.0;
  // The partial sums' sizes added up: what a sum in this order may lose, in units of rounding.
  // Equal terms do lose it, since every partial sum is rounded the same way.
  double path = 0.0;

  __device__ __forceinline__ void add(double x) {
    double next = __dadd_rn(sum, x);
    double big = fabs(sum) >= fabs(x) ? sum : x;
    double small = fabs(sum) >= fabs(x) ? x : sum;
    lost = __dadd_rn(lost, __dadd_rn(__dadd_rn(big, -next), small));
    sum = next;
    path += fabs(next);
  }

  // Adds x * y exactly: the rounding error of the product is added as well.
  __device__ __forceinline__ void add_product(double x, double y) {
    double product = __dmul_rn(x, y);
    add(product);
    lost = __dadd_rn(lost, __fma_rn(x, y, -product));
  }

  __device__ __forceinline__ double value() const {
    // An infinite sum makes the compensation NaN; the sum alone is then the answer.
    return isfinite(sum) ? __dadd_rn(sum, lost) : sum;
  }
};
