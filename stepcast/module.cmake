# SPDX-License-Identifier: Apache-2.0
# The version that Forecast::json() names.
target_compile_definitions(stepcast_stepcast PRIVATE STEPCAST_VERSION="${PROJECT_VERSION}")
include(HashSources)
hash_sources(stepcast_stepcast)
