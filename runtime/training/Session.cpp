#include "runtime/training/Session.h"
#include "runtime/data/DataLoader.h"
#include <algorithm>

namespace omnibal::rt {

int loaderThreads(const Session &session, const std::string &mode) {
  if (session.options.loaderThreads > 0)
    return session.options.loaderThreads;
  // Decoding runs beside the compute threads; one thread keeps up except for large pictures.
  const bool pixels = readsPixels(session.executor->stageInfo(), mode);
  return pixels ? std::max(1, session.executor->pool().threads() / 2) : 1;
}

} // namespace omnibal::rt
