//===- AlgorithmFile.h - Measured choices of algorithms, kept between runs --------------------===//
//
// The file is that of OMNIBAL_CUDA_ALGORITHMS, or $XDG_CACHE_HOME/omnibal/cuda-algorithms.json
// (without XDG_CACHE_HOME in ~/.cache); with OMNIBAL_CUDA_ALGORITHMS=off nothing is measured or
// kept. What is in the file is used as it is, so one file means one choice for every rank and every
// run. All ranks of a process share one object; processes take turns by a lock next to the file.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_ALGORITHMFILE_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_ALGORITHMFILE_H

#include "runtime/backends/cuda/libraries/Abi.h"
#include "runtime/support/Status.h"
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace omnibal::rt::cuda {

struct MeasuredAlgorithm {
  lt::Algorithm algorithm{};
  double seconds = 0;
};

class AlgorithmFile {
public:
  using Measure = std::function<Result<MeasuredAlgorithm>()>;

  /// Returns the file of this process, or null if measuring is off.
  static std::shared_ptr<AlgorithmFile> shared();
  /// With an empty path the algorithms are kept in memory only. A damaged file counts as empty,
  /// with a notice.
  explicit AlgorithmFile(std::string path);

  bool knows(const std::string &key);
  /// Returns what is known under `key`, or what `measure` finds, which is then written. Failing to
  /// write is a notice: the choice holds for this process.
  Result<MeasuredAlgorithm> get(const std::string &key, const Measure &measure);

private:
  void read();
  Status write() const;

  const std::string path;
  std::mutex mutex;
  std::map<std::string, MeasuredAlgorithm> entries;
};

/// The file's text and back.
std::string printAlgorithms(const std::map<std::string, MeasuredAlgorithm> &entries);
Result<std::map<std::string, MeasuredAlgorithm>> parseAlgorithms(const std::string &text,
                                                                 const std::string &path);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_ALGORITHMFILE_H
