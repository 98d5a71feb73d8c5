#include "runtime/backends/host/Adafactor.h"
#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/vector/Update.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace omnibal::rt {
namespace {

constexpr int64_t elementsOfTask = 65536; // values worth handing out
/// Elements whose updates are at hand at once, and columns that a task adds up.
constexpr int64_t strip = 256;

/// Consecutive elements whose variances are a factor times consecutive values.
struct VarianceRun {
  int64_t begin, size;
  const float *variances;
  float factor;
};

class AdafactorUpdate {
public:
  AdafactorUpdate(const UpdatedTensor &tensor, const UpdateOptions &options, ThreadPool &pool)
      : t(tensor), pool(pool), scale(static_cast<float>(options.gradientScale)),
        take(static_cast<float>(std::pow(static_cast<double>(options.step), options.beta2Decay))),
        least(static_cast<float>(options.epsilon)) {}

  void updateVariances() {
    if (t.rows > 0) {
      updateRows();
      updateColumns();
      findFactors();
    } else {
      forPiecesOf(t.elements, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float g = t.grad[i] * scale;
          mix(t.moment1[i], g * g);
        }
      });
    }
  }

  /// The root of the mean square of the updates.
  double rootMeanSquare() {
    std::vector<double> sums(tasks());
    forRuns([&](int64_t task, const VarianceRun &run) {
      forStrips(run, [&](int64_t, int64_t size, const float *update) {
        sums[task] += updateTable().squares(update, size);
      });
    });
    return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0) /
                     static_cast<double>(t.elements));
  }

  void apply(float shrink, float stepSize, bool zeroGradients) {
    forRuns([&](int64_t, const VarianceRun &run) {
      forStrips(run, [&](int64_t begin, int64_t size, const float *update) {
        float *param = t.param + begin;
        for (int64_t i = 0; i < size; ++i)
          param[i] = param[i] * shrink - stepSize * update[i];
        if (t.copy)
          for (int64_t i = 0; i < size; ++i)
            t.copy[begin + i] = BFloat16::fromFloat(param[i]);
      });
      if (zeroGradients)
        std::memset(t.grad + run.begin, 0, run.size * sizeof(float));
    });
  }

private:
  void mix(float &variance, float square) const { variance += take * (square - variance); }

  /// Runs body(task, begin, end) over all of [0, n), in pieces that do not depend on the threads.
  template <typename Body> void forPiecesOf(int64_t n, Body body, int64_t piece = elementsOfTask) {
    pool.parallelFor((n + piece - 1) / piece, [&](int64_t task, int) {
      body(task, task * piece, std::min(n, (task + 1) * piece));
    });
  }

  /// Of all matrices.
  int64_t rowCount() const { return t.elements / t.cols; }
  int64_t rowsOfTask() const { return std::max<int64_t>(1, elementsOfTask / t.cols); }
  int64_t tasks() const {
    const int64_t piece = t.rows > 0 ? rowsOfTask() * t.cols : elementsOfTask;
    return (t.elements + piece - 1) / piece;
  }

  void updateRows() {
    forPiecesOf(
        rowCount(),
        [&](int64_t, int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            mix(t.moment1[row],
                meanOf(updateTable().squares(t.grad + row * t.cols, t.cols), t.cols));
        },
        rowsOfTask());
  }

  /// A task adds up neighboring columns of one matrix, all of their rows.
  void updateColumns() {
    const int64_t strips = (t.cols + strip - 1) / strip, matrix = t.rows * t.cols;
    const int64_t perTask =
        std::max<int64_t>(1, elementsOfTask / (t.rows * std::min(t.cols, strip)));
    forPiecesOf(
        t.elements / matrix * strips,
        [&](int64_t, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            updateColumnStrip(i / strips, i % strips * strip);
        },
        perTask);
  }

  void updateColumnStrip(int64_t matrix, int64_t first) {
    const int64_t size = std::min(strip, t.cols - first);
    double sums[strip] = {};
    for (int64_t row = 0; row < t.rows; ++row) {
      const float *grad = t.grad + (matrix * t.rows + row) * t.cols + first;
      for (int64_t i = 0; i < size; ++i)
        sums[i] += static_cast<double>(grad[i]) * static_cast<double>(grad[i]);
    }
    for (int64_t i = 0; i < size; ++i)
      mix(t.moment2[matrix * t.cols + first + i], meanOf(sums[i], t.rows));
  }

  float meanOf(double squares, int64_t count) const {
    return static_cast<float>(squares * scale * scale / static_cast<double>(count));
  }

  /// 1 / max(mean(R), epsilon) of every matrix.
  void findFactors() {
    factors.resize(t.elements / (t.rows * t.cols));
    for (size_t matrix = 0; matrix < factors.size(); ++matrix) {
      const float *rows = t.moment1 + static_cast<int64_t>(matrix) * t.rows;
      const double mean = std::accumulate(rows, rows + t.rows, 0.0) / static_cast<double>(t.rows);
      factors[matrix] = static_cast<float>(1 / std::max<double>(mean, least));
    }
  }

  /// Runs body(task, run) over all runs of tasks().
  template <typename Body> void forRuns(Body body) {
    if (t.rows > 0)
      forPiecesOf(
          rowCount(),
          [&](int64_t task, int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
              const int64_t matrix = row / t.rows;
              body(task, VarianceRun{row * t.cols, t.cols, t.moment2 + matrix * t.cols,
                                     t.moment1[row] * factors[matrix]});
            }
          },
          rowsOfTask());
    else
      forPiecesOf(t.elements, [&](int64_t task, int64_t begin, int64_t end) {
        body(task, VarianceRun{begin, end - begin, t.moment1 + begin, 1});
      });
  }

  /// Runs body(first element, size, updates) along the run.
  template <typename Body> void forStrips(const VarianceRun &run, Body body) const {
    const float leastSquare = least * least;
    alignas(64) float update[strip];
    for (int64_t at = 0; at < run.size; at += strip) {
      const int64_t size = std::min(strip, run.size - at);
      const float *grad = t.grad + run.begin + at, *variances = run.variances + at;
      for (int64_t i = 0; i < size; ++i) {
        const float variance = run.factor * variances[i];
        update[i] = grad[i] * scale / std::sqrt(variance < leastSquare ? leastSquare : variance);
      }
      body(run.begin + at, size, update);
    }
  }

  const UpdatedTensor &t;
  ThreadPool &pool;
  const float scale, take, least;
  std::vector<float> factors; ///< of the matrices
};

} // namespace

void updateAdafactor(const UpdatedTensor &t, const UpdateOptions &options, ThreadPool &pool) {
  if (t.elements == 0)
    return;
  const UpdateRate &rate = options.rates[t.rate];
  const FloatRun all{t.param, t.elements};
  const double size = std::sqrt(squaredNorm({&all, 1}, pool) / static_cast<double>(t.elements));
  AdafactorUpdate update(t, options, pool);
  update.updateVariances();
  const double clip = std::max(1.0, update.rootMeanSquare() / options.updateClip);
  const double relative =
      std::min(rate.learningRate, 1 / std::sqrt(static_cast<double>(options.step)));
  update.apply(static_cast<float>(1 - rate.learningRate * rate.weightDecay),
               static_cast<float>(relative * std::max(options.epsilon2, size) / clip),
               options.zeroGradients);
}

} // namespace omnibal::rt
