#include "runtime/backends/cuda/driver/Stopwatch.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

constexpr int rounds = 3;
constexpr double longRound = 4e-4;    ///< seconds; shorter launches are repeated up to here
constexpr double hopeless = 1.3;      ///< of the time to beat
constexpr double singleLaunch = 1e-5; ///< seconds that one launch alone may take more
constexpr int mostLaunches = 10;
constexpr Communicator::Milliseconds patience{60'000};

} // namespace

Status settle(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  OMNIBAL_RETURN_IF_ERROR(check(cudaStreamIsCapturing(stream, &status), "looking at a stream"));
  if (status != cudaStreamCaptureStatusNone)
    return Status::ok();
  OMNIBAL_ASSIGN_OR_RETURN(auto event, DriverEvent::after(stream));
  return event->wait(patience, "the end of the work before a measurement");
}

Result<std::unique_ptr<Stopwatch>> Stopwatch::create() {
  std::unique_ptr<Stopwatch> made(new Stopwatch);
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaThreadExchangeStreamCaptureMode(&made->mode), "preparing a measurement"));
  made->relaxed = true;
  OMNIBAL_ASSIGN_OR_RETURN(made->queue, Stream::create());
  OMNIBAL_ASSIGN_OR_RETURN(made->begin, DriverEvent::create(true));
  OMNIBAL_ASSIGN_OR_RETURN(made->end, DriverEvent::create(true));
  return made;
}

Stopwatch::~Stopwatch() {
  if (relaxed)
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

Result<double> Stopwatch::round(int launches, const std::function<bool()> &launch, bool &went) {
  OMNIBAL_RETURN_IF_ERROR(begin->record(stream()));
  for (int i = 0; i < launches && went; ++i)
    went = launch();
  OMNIBAL_RETURN_IF_ERROR(end->record(stream()));
  OMNIBAL_RETURN_IF_ERROR(end->wait(patience, "the end of a measurement"));
  float milliseconds = 0;
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaEventElapsedTime(&milliseconds, begin->handle(), end->handle()), "measuring"));
  return milliseconds * 1e-3 / launches;
}

Result<std::optional<double>> Stopwatch::time(const std::function<bool()> &launch,
                                              std::optional<double> toBeat) {
  bool went = true;
  OMNIBAL_RETURN_IF_ERROR(round(1, launch, went).status()); // loads code, fills caches
  OMNIBAL_ASSIGN_OR_RETURN(double best, round(1, launch, went));
  if (toBeat && best > hopeless * *toBeat + singleLaunch)
    return went ? std::optional<double>(best) : std::nullopt;
  const int launches =
      std::clamp(static_cast<int>(longRound / std::max(best, 1e-7)), 1, mostLaunches);
  for (int i = 0; i < rounds && went; ++i) {
    OMNIBAL_ASSIGN_OR_RETURN(const double seconds, round(launches, launch, went));
    best = std::min(best, seconds);
  }
  return went ? std::optional<double>(best) : std::nullopt;
}

} // namespace omnibal::rt::cuda
