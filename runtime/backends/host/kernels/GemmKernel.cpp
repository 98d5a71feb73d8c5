//===- GemmKernel.cpp - The `gemm` kernel: batches, folding, tasks -----------------------===//
#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/MatrixProduct.h"
#include "runtime/device/calls/BoundGemm.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

class GemmKernel final : public HostKernel, private BoundGemm {
public:
  GemmKernel(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundGemm(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    const TensorView &vc = views[c];
    if (sumA >= 0)
      addSums(views[a], views[sumA], 0, pool);
    if (sumB >= 0)
      addSums(views[b], views[sumB], 1, pool);
    if (vc.elements() == 0)
      return Status::ok();
    Product product;
    product.a = matrix(views[a]);
    product.b = matrix(views[b]);
    product.c = matrix(vc);
    product.alpha = alpha;
    product.accumulate = accumulate;
    product.activation = static_cast<Activation>(activation);
    if (bias >= 0) {
      product.bias = dataOf<float>(views[bias]);
      product.biasColStride = views[bias].strides[0];
    }
    if (residual >= 0)
      product.residual = matrix(views[residual]);
    if (pre >= 0)
      product.pre = matrix(views[pre]);
    if (at >= 0)
      product.at = matrix(views[at]);

    Batch batch = fold(views, product);
    if (!isDense(product.a) || !isDense(product.b) || !isDense(product.c))
      return bad("a matrix of shape " + printShape(vc) +
                 " has no unit stride in its last two dimensions; copy it first");
    if (batch.count == 1)
      return multiply(product, pool).context(where);
    bool swapped = normalize(product);
    return runTasks(product, batch, swapped, pool);
  }

private:
  /// Leading dimensions that remain after folding, with the element strides of each operand.
  struct Batch {
    enum { A, B, C, Residual, Pre, At, operands };
    int rank = 0;
    int64_t count = 1, shape[TensorView::maxRank] = {};
    int64_t strides[operands][TensorView::maxRank] = {};
  };

  static Matrix matrix(const TensorView &v) {
    int r = v.rank;
    return {dataOf<float>(v), v.shape[r - 2], v.shape[r - 1], v.strides[r - 2], v.strides[r - 1]};
  }

  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &va = views[a], &vb = views[b], &vc = views[c];
    OMNIBAL_RETURN_IF_ERROR(expect(vc, "c", -1, DType::F32));
    if (vc.rank < 2)
      return bad("operand 'c' has shape " + printShape(vc) + "; at least 2 dimensions are needed");
    OMNIBAL_RETURN_IF_ERROR(expect(va, "a", vc.rank, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(expect(vb, "b", vc.rank, DType::F32));
    int r = vc.rank;
    bool fits = va.shape[r - 2] == vc.shape[r - 2] && vb.shape[r - 1] == vc.shape[r - 1] &&
                va.shape[r - 1] == vb.shape[r - 2];
    for (int i = 0; i < r - 2; ++i)
      fits &= va.shape[i] == vc.shape[i] && vb.shape[i] == vc.shape[i];
    if (!fits)
      return bad("shapes " + printShape(va) + " x " + printShape(vb) + " do not make " +
                 printShape(vc));
    if (bias >= 0) {
      OMNIBAL_RETURN_IF_ERROR(expect(views[bias], "bias", 1, DType::F32));
      if (views[bias].shape[0] != vc.shape[r - 1])
        return bad("operand 'bias' has shape " + printShape(views[bias]) + ", but 'c' " +
                   printShape(vc));
    }
    for (auto [index, name] :
         {std::pair{residual, "residual"}, std::pair{pre, "pre"}, std::pair{at, "at"}})
      if (index >= 0) {
        OMNIBAL_RETURN_IF_ERROR(expect(views[index], name, r, DType::F32));
        OMNIBAL_RETURN_IF_ERROR(same(views[index], name, vc, "c"));
      }
    for (auto [index, name, values] :
         {std::tuple{sumA, "sum_a", vc.shape[r - 2]}, std::tuple{sumB, "sum_b", vc.shape[r - 1]}})
      if (index >= 0) {
        OMNIBAL_RETURN_IF_ERROR(expect(views[index], name, 1, DType::F32));
        if (r != 2 || views[index].shape[0] != values)
          return bad("operand '" + std::string(name) + "' has shape " + printShape(views[index]) +
                     ", but 'c' " + printShape(vc));
      }
    return Status::ok();
  }

  /// to[i] += the sum of a matrix over its other dimension.
  static void addSums(const TensorView &from, const TensorView &to, int kept, ThreadPool &pool) {
    constexpr int64_t strip = 16;
    const int64_t lines = from.shape[kept], length = from.shape[1 - kept];
    const float *data = dataOf<float>(from);
    float *sums = dataOf<float>(to);
    pool.parallelFor((lines + strip - 1) / strip, [&](int64_t task, int) {
      if (from.strides[kept] == 1 && lines - task * strip >= strip) {
        double local[strip] = {};
        productTable().addColumns(data + task * strip, from.strides[1 - kept], length, local);
        for (int64_t l = 0; l < strip; ++l)
          sums[(task * strip + l) * to.strides[0]] += static_cast<float>(local[l]);
        return;
      }
      for (int64_t i = task * strip; i < std::min(lines, (task + 1) * strip); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < length; ++j)
          sum += data[i * from.strides[kept] + j * from.strides[1 - kept]];
        sums[i * to.strides[0]] += static_cast<float>(sum);
      }
    });
  }

  /// Moves innermost batch dimensions that continue the rows of a and c, with one b for all, into
  /// M.
  Batch fold(std::span<const TensorView> views, Product &p) const {
    Batch batch;
    const TensorView &vc = views[c];
    const int index[Batch::operands] = {a, b, c, residual, pre, at};
    bool folding = true;
    for (int i = vc.rank - 3; i >= 0; --i) {
      if (vc.shape[i] == 1)
        continue;
      auto continues = [&](int operand, const Matrix &m) {
        return operand < 0 || views[operand].strides[i] == m.rowStride * m.rows;
      };
      bool rowsFold = folding && views[b].strides[i] == 0;
      if (rowsFold && p.c.rows == 1) { // one row each: the batch stride becomes the row stride
        p.a.rowStride = views[a].strides[i];
        p.c.rowStride = vc.strides[i];
        if (residual >= 0)
          p.residual.rowStride = views[residual].strides[i];
        if (pre >= 0)
          p.pre.rowStride = views[pre].strides[i];
        if (at >= 0)
          p.at.rowStride = views[at].strides[i];
      } else {
        rowsFold = rowsFold && continues(a, p.a) && continues(c, p.c) &&
                   continues(residual, p.residual) && continues(pre, p.pre) && continues(at, p.at);
      }
      if (rowsFold) {
        for (Matrix *m : {&p.a, &p.c, &p.residual, &p.pre, &p.at})
          m->rows *= vc.shape[i];
        continue;
      }
      folding = false;
      batch.shape[batch.rank] = vc.shape[i];
      batch.count *= vc.shape[i];
      for (int o = 0; o < Batch::operands; ++o)
        batch.strides[o][batch.rank] = index[o] < 0 ? 0 : views[index[o]].strides[i];
      ++batch.rank;
    }
    return batch;
  }

  Status runTasks(const Product &product, const Batch &batch, bool swapped, ThreadPool &pool) {
    Tiling tiling = chooseTiling(product, batch.count);
    // Many small products: several of them make one task.
    double flops = 2.0 * tiling.rows * tiling.cols * std::max<int64_t>(product.a.cols, 1);
    int64_t total = batch.count * tiling.tasks();
    int64_t group =
        std::clamp<int64_t>(static_cast<int64_t>(1e6 / flops), 1, std::max<int64_t>(1, total / 16));
    TaskStatus status;
    pool.parallelFor((total + group - 1) / group, [&](int64_t task, int worker) {
      const std::span<float> scratch = scratchOf(pool, worker);
      for (int64_t item = task * group; item < std::min(total, (task + 1) * group); ++item) {
        Product p = product;
        int64_t rest = item / tiling.tasks();
        for (int i = 0; i < batch.rank; ++i) {
          int64_t step = rest % batch.shape[i];
          rest /= batch.shape[i];
          (swapped ? p.b : p.a).data += step * batch.strides[Batch::A][i];
          (swapped ? p.a : p.b).data += step * batch.strides[Batch::B][i];
          p.c.data += step * batch.strides[Batch::C][i];
          if (p.residual.data)
            p.residual.data += step * batch.strides[Batch::Residual][i];
          if (p.pre.data)
            p.pre.data += step * batch.strides[Batch::Pre][i];
          if (p.at.data)
            p.at.data += step * batch.strides[Batch::At][i];
        }
        status.note(multiplyTile(p, tiling, item % tiling.tasks(), scratch));
      }
    });
    return status.take().context(where);
  }
};

} // namespace

void addGemmKernels(KernelTable &table) { table["gemm"] = createKernel<GemmKernel>; }

} // namespace omnibal::rt
