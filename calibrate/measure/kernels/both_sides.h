// SPDX-License-Identifier: Apache-2.0
// Functions that the device and the host both run, so that ordinary tests check them.
#pragma once

#ifdef __CUDACC__
#define STEPCAST_BOTH __host__ __device__
#else
#define STEPCAST_BOTH
#endif
