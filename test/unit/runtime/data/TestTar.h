//===- TestTar.h - Hand-made tar files for tests -----------------------------------------===//
#ifndef TEST_UNIT_RUNTIME_DATA_TESTTAR_H
#define TEST_UNIT_RUNTIME_DATA_TESTTAR_H

#include "test/support/TemporaryFolder.h"
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace omnibal::test {

/// A ustar archive of regular files; `type` '2' would make a symbolic link.
inline std::string makeTar(const std::vector<std::pair<std::string, std::string>> &members,
                           bool marker = true, char type = '0') {
  std::string tar;
  for (const auto &[name, contents] : members) {
    char header[512] = {};
    std::snprintf(header, 100, "%s", name.c_str());
    std::snprintf(header + 100, 8, "%07o", 0644);
    std::snprintf(header + 108, 8, "%07o", 0);
    std::snprintf(header + 116, 8, "%07o", 0);
    std::snprintf(header + 124, 12, "%011llo", (unsigned long long)contents.size());
    std::snprintf(header + 136, 12, "%011o", 0);
    header[156] = type;
    std::memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 8 * ' ';
    for (unsigned char byte : header)
      sum += byte;
    std::snprintf(header + 148, 8, "%06o", sum);
    header[155] = ' ';
    tar.append(header, 512);
    tar += contents;
    tar.resize((tar.size() + 511) / 512 * 512);
  }
  if (marker)
    tar.append(1024, '\0');
  return tar;
}

} // namespace omnibal::test
#endif // TEST_UNIT_RUNTIME_DATA_TESTTAR_H
