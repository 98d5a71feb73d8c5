#include "runtime/support/TraceWriter.h"
#include <cinttypes>
#include <cstdio>

namespace omnibal::rt {

std::string TraceWriter::microseconds(int64_t ns) {
  const int64_t size = ns < 0 ? -ns : ns;
  char text[32];
  std::snprintf(text, sizeof text, "%s%" PRId64 ".%03" PRId64, ns < 0 ? "-" : "", size / 1000,
                size % 1000);
  return text;
}

} // namespace omnibal::rt
