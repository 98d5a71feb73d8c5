//===- GroupedGemm.cpp - Rows in groups and products with the matrix of each group -------===//
//
// A tile has rows of one group: they are gathered, multiplied as any tile of a product, and put
// back where they belong. How rows fall into groups is data, so the number of tiles is, too; each
// value is one sum in the order of the depth, or of the group's rows, whatever tile it lies in.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/kernels/HostKernel.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace omnibal::rt {
namespace {

constexpr int64_t gatheredFloats = int64_t{1} << 17; ///< of scratch, for the rows of a tile
constexpr int64_t rowStep = 12, rowLimit = 96;
constexpr int64_t colLimit = 512;
constexpr int64_t gradientDepth =
    256; ///< rows that are summed before they are added to the gradient
constexpr int64_t gradientRows = 192, gradientCols = 256;

int64_t integerAt(const TensorView &v, int64_t i) {
  return v.dtype == DType::I64 ? dataOf<int64_t>(v)[i * v.strides[0]]
                               : dataOf<int32_t>(v)[i * v.strides[0]];
}

class GroupRows final : public HostKernel {
public:
  GroupRows(CallReader &call, const BoundCall &description)
      : HostKernel(description), ids(call.operand("ids")), order(call.operand("order")),
        borders(call.operand("borders")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[ids];
    if (from.dtype != DType::I64)
      OMNIBAL_RETURN_IF_ERROR(expect(from, "ids", 1, DType::I32));
    OMNIBAL_RETURN_IF_ERROR(expect(views[order], "order", 1, DType::I32));
    OMNIBAL_RETURN_IF_ERROR(expect(views[borders], "borders", 1, DType::I32));
    const int64_t rows = from.shape[0], groups = views[borders].shape[0] - 1;
    if (from.rank != 1 || views[order].shape[0] != rows || groups < 1)
      return bad("order " + printShape(views[order]) + " and borders " +
                 printShape(views[borders]) + " do not fit ids " + printShape(from));
    auto *to = dataOf<int32_t>(views[order]), *ends = dataOf<int32_t>(views[borders]);
    const int64_t step = views[order].strides[0], endStep = views[borders].strides[0];
    for (int64_t g = 0; g <= groups; ++g)
      ends[g * endStep] = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t group = integerAt(from, i);
      if (group < 0 || group >= groups)
        return bad("row " + std::to_string(i) + " is of group " + std::to_string(group) +
                   ", outside [0, " + std::to_string(groups) + ")");
      ++ends[(group + 1) * endStep];
    }
    for (int64_t g = 0; g < groups; ++g)
      ends[(g + 1) * endStep] += ends[g * endStep];
    // A border runs through its group while rows are placed, and so ends where the next begins.
    for (int64_t i = 0; i < rows; ++i)
      to[ends[integerAt(from, i) * endStep]++ * step] = static_cast<int32_t>(i);
    for (int64_t g = groups; g > 0; --g)
      ends[g * endStep] = ends[(g - 1) * endStep];
    ends[0] = 0;
    return Status::ok();
  }

private:
  int ids, order, borders;
};

/// Rows [.., C] of a view whose leading dimensions may repeat (stride 0).
class RowList {
public:
  explicit RowList(const TensorView &v)
      : data(dataOf<float>(v)), inner(v.rank == 3 ? v.shape[1] : 1), outerStride(v.strides[0]),
        innerStride(v.rank == 3 ? v.strides[1] : 0), colStride(v.strides[v.rank - 1]) {}

  float *row(int64_t i) const { return data + i / inner * outerStride + i % inner * innerStride; }
  /// Columns [first, first + count) of a row, densely.
  void gather(int64_t i, int64_t first, int64_t count, float *to) const {
    const float *from = row(i) + first * colStride;
    if (colStride == 1)
      std::memcpy(to, from, count * sizeof(float));
    else
      for (int64_t c = 0; c < count; ++c)
        to[c] = from[c * colStride];
  }
  void scatter(int64_t i, int64_t first, int64_t count, const float *from) const {
    float *to = row(i) + first * colStride;
    if (colStride == 1)
      std::memcpy(to, from, count * sizeof(float));
    else
      for (int64_t c = 0; c < count; ++c)
        to[c * colStride] = from[c];
  }

private:
  float *data;
  int64_t inner, outerStride, innerStride, colStride;
};

/// What both products share: operands, and the parts of a group's rows.
class GroupedKernel : public HostKernel {
public:
  GroupedKernel(CallReader &call, const BoundCall &description)
      : HostKernel(description), a(call.operand("a")), b(call.operand("b")),
        order(call.operand("order")), borders(call.operand("borders")), c(call.operand("c")) {}

protected:
  /// Checks an operand with a row for each entry of the order.
  Status checkRows(std::span<const TensorView> views, int operand, const char *name) const {
    const TensorView &v = views[operand];
    OMNIBAL_RETURN_IF_ERROR(expect(v, name, v.rank == 3 ? 3 : 2, DType::F32));
    const int64_t rows = v.rank == 3 ? v.shape[0] * v.shape[1] : v.shape[0];
    if (rows != views[order].shape[0])
      return bad("operand '" + std::string(name) + "' has shape " + printShape(v) + " for " +
                 std::to_string(views[order].shape[0]) + " rows in groups");
    return Status::ok();
  }
  Status checkGroups(std::span<const TensorView> views, int operand, const char *name) const {
    OMNIBAL_RETURN_IF_ERROR(expect(views[order], "order", 1, DType::I32));
    OMNIBAL_RETURN_IF_ERROR(expect(views[borders], "borders", 1, DType::I32));
    OMNIBAL_RETURN_IF_ERROR(expect(views[operand], name, 3, DType::F32));
    if (views[operand].shape[0] + 1 != views[borders].shape[0])
      return bad("operand '" + std::string(name) + "' has shape " + printShape(views[operand]) +
                 " for " + std::to_string(views[borders].shape[0] - 1) + " groups");
    return Status::ok();
  }
  Status unfit(std::span<const TensorView> views) const {
    return bad("shapes " + printShape(views[a]) + " and " + printShape(views[b]) + " do not make " +
               printShape(views[c]));
  }
  static Matrix matrixOf(const TensorView &v, int64_t group) {
    return {dataOf<float>(v) + group * v.strides[0], v.shape[1], v.shape[2], v.strides[1],
            v.strides[2]};
  }
  static int64_t rowAt(const TensorView &order, int64_t i) {
    return dataOf<int32_t>(order)[i * order.strides[0]];
  }
  static int64_t borderAt(const TensorView &borders, int64_t group) {
    return dataOf<int32_t>(borders)[group * borders.strides[0]];
  }

  int a, b, order, borders, c;
};

/// c[r] = a[r] b[group of r]
class GroupedGemm final : public GroupedKernel {
public:
  using GroupedKernel::GroupedKernel;

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &vb = views[b], &vc = views[c];
    OMNIBAL_RETURN_IF_ERROR(checkGroups(views, b, "b"));
    OMNIBAL_RETURN_IF_ERROR(checkRows(views, a, "a"));
    OMNIBAL_RETURN_IF_ERROR(checkRows(views, c, "c"));
    const int64_t depth = vb.shape[1], cols = vb.shape[2], groups = vb.shape[0];
    if (views[a].shape[views[a].rank - 1] != depth || vc.shape[vc.rank - 1] != cols)
      return unfit(views);
    if (!isDense(matrixOf(vb, 0)))
      return bad("matrices of strides other than one in both dimensions; copy them first");
    const int64_t rows = std::clamp(
        gatheredFloats / std::max<int64_t>(depth, 1) / rowStep * rowStep, rowStep, rowLimit);
    const int64_t width = std::min(cols, colLimit), across = (cols + width - 1) / width;
    firstTile.resize(static_cast<size_t>(groups) + 1);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t count = borderAt(views[borders], g + 1) - borderAt(views[borders], g);
      firstTile[g + 1] = firstTile[g] + (count + rows - 1) / rows;
    }
    TaskStatus status;
    pool.parallelFor(firstTile[groups] * across, [&](int64_t task, int worker) {
      const int64_t tile = task / across, col = task % across * width;
      const int64_t group =
          std::upper_bound(firstTile.begin(), firstTile.end(), tile) - firstTile.begin() - 1;
      const int64_t first = borderAt(views[borders], group) + (tile - firstTile[group]) * rows;
      const int64_t count = std::min(rows, borderAt(views[borders], group + 1) - first);
      status.note(multiplyRows(views, group, first, count, col, std::min(width, cols - col),
                               scratchOf(pool, worker)));
    });
    return status.take().context(where);
  }

private:
  Status multiplyRows(std::span<const TensorView> views, int64_t group, int64_t first,
                      int64_t count, int64_t col, int64_t cols, std::span<float> scratch) const {
    const RowList from(views[a]), to(views[c]);
    const int64_t depth = views[b].shape[1];
    float *gathered = scratch.data(), *result = gathered + count * depth;
    for (int64_t i = 0; i < count; ++i)
      from.gather(rowAt(views[order], first + i), 0, depth, gathered + i * depth);
    Product product;
    product.a = {gathered, count, depth, depth, 1};
    product.b = matrixOf(views[b], group).window(0, col, depth, cols);
    product.c = {result, count, cols, cols, 1};
    OMNIBAL_RETURN_IF_ERROR(multiplyTile(product, {count, cols, 1, 1}, 0,
                                         scratch.subspan(count * depth + count * cols)));
    for (int64_t i = 0; i < count; ++i)
      to.scatter(rowAt(views[order], first + i), col, cols, result + i * cols);
    return Status::ok();
  }

  std::vector<int64_t> firstTile; ///< of rows, by group
};

/// c[g] += the sum of a[r]^T b[r] over the rows of group g
class GroupedGemmBackward final : public GroupedKernel {
public:
  using GroupedKernel::GroupedKernel;

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &vc = views[c];
    OMNIBAL_RETURN_IF_ERROR(checkGroups(views, c, "c"));
    OMNIBAL_RETURN_IF_ERROR(checkRows(views, a, "a"));
    OMNIBAL_RETURN_IF_ERROR(checkRows(views, b, "b"));
    const int64_t rows = vc.shape[1], cols = vc.shape[2];
    if (views[a].shape[views[a].rank - 1] != rows || views[b].shape[views[b].rank - 1] != cols)
      return unfit(views);
    if (cols > 1 && vc.strides[2] != 1)
      return bad("operand 'c' needs unit stride in its last dimension");
    const int64_t down = (rows + gradientRows - 1) / gradientRows,
                  across = (cols + gradientCols - 1) / gradientCols;
    TaskStatus status;
    pool.parallelFor(vc.shape[0] * down * across, [&](int64_t task, int worker) {
      const int64_t row = task / across % down * gradientRows, col = task % across * gradientCols;
      status.note(addRows(views, task / (down * across), row, std::min(gradientRows, rows - row),
                          col, std::min(gradientCols, cols - col), scratchOf(pool, worker)));
    });
    return status.take().context(where);
  }

private:
  Status addRows(std::span<const TensorView> views, int64_t group, int64_t row, int64_t rows,
                 int64_t col, int64_t cols, std::span<float> scratch) const {
    const RowList left(views[a]), right(views[b]);
    float *gatheredLeft = scratch.data(), *gatheredRight = gatheredLeft + gradientDepth * rows;
    std::span<float> rest = scratch.subspan(gradientDepth * (rows + cols));
    const int64_t end = borderAt(views[borders], group + 1);
    for (int64_t first = borderAt(views[borders], group); first < end; first += gradientDepth) {
      const int64_t count = std::min(gradientDepth, end - first);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = rowAt(views[order], first + i);
        left.gather(at, row, rows, gatheredLeft + i * rows);
        right.gather(at, col, cols, gatheredRight + i * cols);
      }
      Product product;
      product.a = Matrix{gatheredLeft, count, rows, rows, 1}.transposed();
      product.b = {gatheredRight, count, cols, cols, 1};
      product.c = matrixOf(views[c], group).window(row, col, rows, cols);
      product.c.colStride = 1;
      product.accumulate = true;
      OMNIBAL_RETURN_IF_ERROR(multiplyTile(product, {rows, cols, 1, 1}, 0, rest));
    }
    return Status::ok();
  }
};

} // namespace

void addGroupedKernels(KernelTable &table) {
  table["group_rows"] = createKernel<GroupRows>;
  table["grouped_gemm"] = createKernel<GroupedGemm>;
  table["grouped_gemm_backward"] = createKernel<GroupedGemmBackward>;
}

} // namespace omnibal::rt
