#include "runtime/device/RecurrentSite.h"
#include <algorithm>

namespace omnibal::rt {

GatedDeltaSite::GatedDeltaSite(SiteReader &site, bool backward)
    : q(site.operand("q")), k(site.operand("k")), v(site.operand("v")),
      decay(site.operand("decay")), beta(site.operand("beta")),
      borders(site.optionalOperand("cu_seqlens")),
      scale(static_cast<float>(site.number("scale", 1))),
      segmentRows(site.integer("segment_rows", 0)) {
  if (backward) {
    dout = site.operand("dout");
    dq = site.operand("dq");
    dk = site.operand("dk");
    dv = site.operand("dv");
    ddecay = site.operand("ddecay");
    dbeta = site.operand("dbeta");
  } else {
    out = site.operand("out");
  }
  if ((segmentRows > 0) == (borders >= 0))
    site.fail("either operand 'cu_seqlens' or a positive attribute 'segment_rows' must be given");
}

std::string GatedDeltaSite::problemWith(std::span<const TensorView> views, bool backward) const {
  const int64_t tokens = views[q].shape[0], heads = views[q].shape[1];
  auto wrong = [&](int operand, int rank, int64_t size) {
    const TensorView &view = views[operand];
    return view.rank != rank || view.shape[0] != tokens || view.shape[1] != heads ||
           (rank == 3 && (view.shape[2] != size || (size > 1 && view.strides[2] != 1)));
  };
  const int64_t size = views[q].shape[2], valueSize = views[v].shape[2];
  bool bad = views[q].rank != 3 || views[v].rank != 3 || wrong(q, 3, size) || wrong(k, 3, size) ||
             wrong(v, 3, valueSize) || wrong(decay, 2, 0) || wrong(beta, 2, 0);
  if (backward)
    bad = bad || wrong(dout, 3, valueSize) || wrong(dq, 3, size) || wrong(dk, 3, size) ||
          wrong(dv, 3, valueSize) || wrong(ddecay, 2, 0) || wrong(dbeta, 2, 0);
  else
    bad = bad || wrong(out, 3, valueSize);
  if (bad)
    return "the operands' shapes do not fit together, or features do not lie side by side";
  if (borders >= 0 && views[borders].rank != 1)
    return "operand 'cu_seqlens' must have rank 1";
  if (segmentRows > 0 && tokens % segmentRows != 0)
    return std::to_string(tokens) +
           " rows are not a multiple of 'segment_rows' = " + std::to_string(segmentRows);
  return {};
}

} // namespace omnibal::rt
