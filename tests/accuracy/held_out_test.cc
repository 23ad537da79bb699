// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/held_out.h"
#include <gtest/gtest.h>
