#include "runtime/backends/host/kernels/HostKernel.h"

namespace omnibal::rt {

Result<Segments> HostKernel::segmentsOf(int64_t tokens, int64_t segmentRows,
                                        const TensorView *borders) const {
  Segments list;
  for (int64_t t = 0; segmentRows > 0 && t < tokens; t += segmentRows)
    list.push_back({t, t + segmentRows});
  if (segmentRows > 0)
    return list;
  int64_t previous = 0;
  for (int64_t i = 0; i < borders->shape[0]; ++i) {
    const int64_t border = dataOf<int32_t>(*borders)[i * borders->strides[0]];
    if (border < previous || border > tokens || (i == 0 && border != 0))
      return bad("cu_seqlens[" + std::to_string(i) + "] is " + std::to_string(border) +
                 "; borders rise from 0 to the number of tokens, " + std::to_string(tokens));
    if (border > previous)
      list.push_back({previous, border});
    previous = border;
  }
  return list;
}

Status HostKernel::needScratch(int64_t bytes, const ThreadPool &pool) const {
  if (bytes <= static_cast<int64_t>(pool.scratchBytes()))
    return Status::ok();
  return {Code::Internal, where + ": needs " + std::to_string(bytes) +
                              " bytes of scratch a thread, but the pool has " +
                              std::to_string(pool.scratchBytes())};
}

} // namespace omnibal::rt
