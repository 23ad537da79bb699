// SPDX-License-Identifier: Apache-2.0
#include "report/html/compress.h"

#include <zlib.h>

#include <cstdint>
#include <new>

#include "sim/check.h"

namespace stepcast {

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): zlib's own byte type
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()), 6);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  STEPCAST_CHECK(status == Z_OK, "zlib has room for what it says");
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8U | (k < here ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += k <= here ? kDigits[word >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

}  // namespace stepcast
