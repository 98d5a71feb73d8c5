//===- GroupedKernels.cpp - Rows in groups and their products on the device -------------------===//
#include "runtime/backends/cuda/calls/PlainKernel.h"
#include "runtime/backends/cuda/kernels/Order.h"
#include "runtime/backends/cuda/kernels/matrix/Grouped.h"

namespace omnibal::rt::cuda {
namespace {

int32_t *listOf(const TensorView &v) { return static_cast<int32_t *>(v.data); }

class GroupRows final : public DeviceKernel {
public:
  GroupRows(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), ids(call.operand("ids")), order(call.operand("order")),
        borders(call.operand("borders")), workspace(call.optionalOperand("workspace")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[ids];
    const bool wide = from.dtype == DType::I64;
    OMNIBAL_RETURN_IF_ERROR(expectList(from, "ids", wide ? DType::I64 : DType::I32, -1));
    const int64_t rows = from.shape[0];
    OMNIBAL_RETURN_IF_ERROR(expectList(views[order], "order", DType::I32, rows));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[borders], "borders", DType::I32, -1));
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory, scratch(views, workspace, orderBytes(rows)));
    return launched(launchGroupRows(rows, views[borders].shape[0] - 1, from.data, wide,
                                    reinterpret_cast<int32_t *>(memory.data), listOf(views[order]),
                                    listOf(views[borders]), context.stream));
  }

private:
  int ids, order, borders, workspace;
};

/// What both products share: operands, and how their rows lie.
class GroupedKernel : public DeviceKernel {
public:
  GroupedKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), a(call.operand("a")), b(call.operand("b")),
        order(call.operand("order")), borders(call.operand("borders")), c(call.operand("c")) {}

protected:
  /// Checks an operand with a row of `cols` values for each entry of the order.
  Status expectRows(std::span<const TensorView> views, int operand, const char *name,
                    int64_t cols) const {
    const TensorView &v = views[operand];
    OMNIBAL_RETURN_IF_ERROR(expectFloat(v, name, v.rank == 3 ? 3 : 2));
    const int64_t rows = v.rank == 3 ? v.shape[0] * v.shape[1] : v.shape[0];
    if (rows != views[order].shape[0] || v.shape[v.rank - 1] != cols)
      return bad("operand '" + std::string(name) + "' has shape " + printShape(v) + "; " +
                 std::to_string(views[order].shape[0]) + " rows of " + std::to_string(cols) +
                 " values were expected");
    return Status::ok();
  }
  Status expectGroups(std::span<const TensorView> views, int operand, const char *name) const {
    OMNIBAL_RETURN_IF_ERROR(expectList(views[order], "order", DType::I32, -1));
    OMNIBAL_RETURN_IF_ERROR(expectFloat(views[operand], name, 3));
    return expectList(views[borders], "borders", DType::I32, views[operand].shape[0] + 1);
  }
  Status expectTypes(std::span<const TensorView> views) const {
    OMNIBAL_RETURN_IF_ERROR(sameType(views[b], "b", views[a], "a"));
    return sameType(views[c], "c", views[a], "a", true);
  }
  static RepeatedRows rowsOf(const TensorView &v) {
    return v.rank == 3 ? RepeatedRows{v.shape[1], v.strides[0], v.strides[1], v.strides[2]}
                       : RepeatedRows{1, v.strides[0], 0, v.strides[1]};
  }
  static GroupedMatrices matricesOf(const TensorView &v) {
    return {v.strides[0], v.strides[1], v.strides[2]};
  }

  int a, b, order, borders, c;
};

class GroupedGemm final : public GroupedKernel {
public:
  using GroupedKernel::GroupedKernel;

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &vb = views[b];
    OMNIBAL_RETURN_IF_ERROR(expectGroups(views, b, "b"));
    OMNIBAL_RETURN_IF_ERROR(expectRows(views, a, "a", vb.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectRows(views, c, "c", vb.shape[2]));
    OMNIBAL_RETURN_IF_ERROR(expectTypes(views));
    GroupedShape s;
    s.rows = views[order].shape[0];
    s.groups = vb.shape[0];
    s.depth = vb.shape[1];
    s.cols = vb.shape[2];
    s.a = rowsOf(views[a]);
    s.b = matricesOf(vb);
    s.c = rowsOf(views[c]);
    s.type = elementOf(views[a].dtype);
    s.resultType = elementOf(views[c].dtype);
    return launched(launchGroupedGemm(s, listOf(views[order]), listOf(views[borders]),
                                      views[a].data, vb.data, views[c].data, context.stream));
  }
};

class GroupedGemmBackward final : public GroupedKernel {
public:
  using GroupedKernel::GroupedKernel;

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &vc = views[c];
    OMNIBAL_RETURN_IF_ERROR(expectGroups(views, c, "c"));
    OMNIBAL_RETURN_IF_ERROR(expectRows(views, a, "a", vc.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectRows(views, b, "b", vc.shape[2]));
    OMNIBAL_RETURN_IF_ERROR(expectTypes(views));
    GroupedGradShape s;
    s.groups = vc.shape[0];
    s.rows = vc.shape[1];
    s.cols = vc.shape[2];
    s.a = rowsOf(views[a]);
    s.b = rowsOf(views[b]);
    s.c = matricesOf(vc);
    s.type = elementOf(views[a].dtype);
    s.resultType = elementOf(vc.dtype);
    return launched(launchGroupedGemmBackward(s, listOf(views[order]), listOf(views[borders]),
                                              views[a].data, views[b].data, vc.data,
                                              context.stream));
  }
};

} // namespace

void addGroupedKernels(DeviceKernelTable &table) {
  table["group_rows"] = createKernelOf<GroupRows>;
  table["grouped_gemm"] = createKernelOf<GroupedGemm>;
  table["grouped_gemm_backward"] = createKernelOf<GroupedGemmBackward>;
}

} // namespace omnibal::rt::cuda
