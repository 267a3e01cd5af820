// Included before every kernel: the names that kernels written for nvcc take for granted.
#pragma once
// CCCL defines INFINITY and NAN again, in its own words.
#pragma nv_diag_suppress 47
#include "stdint.h"
#include "limits.h"
#include "float.h"
#include "math.h"
#include "assert.h"
