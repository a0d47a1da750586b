// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>

namespace repro_check::test_support {

/// One of the ways in which files go bad.
inline std::string mutate(std::string bytes, std::mt19937_64& random) {
  const std::size_t at = random() % bytes.size();
  const std::size_t length = std::min<std::size_t>(bytes.size() - at, 1 + random() % 64);
  switch (random() % 6) {
    case 0:  // a flipped bit
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << (random() % 8)));
      break;
    case 2:  // a byte of another value
      bytes[at] = static_cast<char>(random() % 2 == 0 ? 0xff : random());
      break;
    case 3:  // a lost stretch, zeroed as a hole would be
      bytes.replace(at, length, length, '\0');
      break;
    case 4:  // a stretch from elsewhere
      bytes.replace(at, length, bytes.substr(random() % bytes.size(), length));
      break;
    default:
      bytes.resize(at);
      break;
  }
  return bytes;
}

}  // namespace repro_check::test_support
