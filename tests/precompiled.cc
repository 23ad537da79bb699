// SPDX-License-Identifier: Apache-2.0
// The owner of the headers that all unit tests share precompiled (see CMakeLists.txt beside it).
