#include "runtime/device/calls/BoundRecurrent.h"
#include <algorithm>

namespace omnibal::rt {

BoundGatedDelta::BoundGatedDelta(CallReader &call, bool backward)
    : q(call.operand("q")), k(call.operand("k")), v(call.operand("v")),
      decay(call.operand("decay")), beta(call.operand("beta")),
      borders(call.optionalOperand("cu_seqlens")),
      scale(static_cast<float>(call.number("scale", 1))),
      segmentRows(call.integer("segment_rows", 0)) {
  if (backward) {
    dout = call.operand("dout");
    dq = call.operand("dq");
    dk = call.operand("dk");
    dv = call.operand("dv");
    ddecay = call.operand("ddecay");
    dbeta = call.operand("dbeta");
  } else {
    out = call.operand("out");
  }
  if ((segmentRows > 0) == (borders >= 0))
    call.fail("either operand 'cu_seqlens' or a positive attribute 'segment_rows' must be given");
}

Status BoundGatedDelta::checkOperands(const CheckedKernel &kernel,
                                      std::span<const TensorView> views) const {
  for (int operand : {q, k, v, decay, beta, out, dout, dq, dk, dv, ddecay, dbeta})
    if (operand >= 0) {
      OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(views[operand], "of numbers", -1));
      OMNIBAL_RETURN_IF_ERROR(kernel.sameType(views[operand], "of numbers", views[q], "q"));
    }
  if (borders >= 0)
    OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[borders], "cu_seqlens", DType::I32, -1));
  const int64_t tokens = views[q].shape[0], heads = views[q].shape[1];
  auto wrong = [&](int operand, int rank, int64_t size) {
    const TensorView &view = views[operand];
    return view.rank != rank || view.shape[0] != tokens || view.shape[1] != heads ||
           (rank == 3 && (view.shape[2] != size || (size > 1 && view.strides[2] != 1)));
  };
  const int64_t size = views[q].shape[2], valueSize = views[v].shape[2];
  bool bad = views[q].rank != 3 || views[v].rank != 3 || wrong(q, 3, size) || wrong(k, 3, size) ||
             wrong(v, 3, valueSize) || wrong(decay, 2, 0) || wrong(beta, 2, 0);
  if (dout >= 0)
    bad = bad || wrong(dout, 3, valueSize) || wrong(dq, 3, size) || wrong(dk, 3, size) ||
          wrong(dv, 3, valueSize) || wrong(ddecay, 2, 0) || wrong(dbeta, 2, 0);
  else
    bad = bad || wrong(out, 3, valueSize);
  if (bad)
    return kernel.bad(
        "the operands' shapes do not fit together, or features do not lie side by side");
  if (segmentRows > 0 && tokens % segmentRows != 0)
    return kernel.bad(std::to_string(tokens) + " rows are not a multiple of 'segment_rows' = " +
                      std::to_string(segmentRows));
  return Status::ok();
}

} // namespace omnibal::rt
