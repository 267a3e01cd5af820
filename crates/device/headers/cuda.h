// The driver API is for hosts; a kernel only needs the type of a TMA descriptor.
#pragma once
#include "stdint.h"

#ifndef CUDA_VERSION
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#endif

typedef unsigned long long CUdeviceptr;

typedef struct CUtensorMap_st {
  alignas(128) unsigned long long opaque[16];
} CUtensorMap;
